#!/bin/sh
# Copy Ingot, Python, programs, and what these load from this system to a folder: the root of the image. A step of Dockerfile.
#
#     image-root.sh FOLDER PROGRAM...
set -eu
root=$1
shift
ingot=/opt/ingot
python=$(realpath $ingot/bin/python)
stdlib=$($ingot/bin/python -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
programs=$(which busybox "$@")

# bytecode of the modules that the roles import; that of all others takes as much room, and shortens no start
find $ingot "$stdlib" -name __pycache__ -prune -exec rm -r {} +
$ingot/bin/python - <<'END'
import compileall, importlib, pkgutil

# those that libraries import by name
names = ["celery.concurrency.thread", "celery.worker.autoscale", "celery.worker.components", "celery.worker.consumer",
         "celery.worker.control", "typer._adapters"]
for name in ("app", "drivers", "workers"):
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        if not module.name.endswith("__main__"):
            names.append(module.name)
for name in names:
    importlib.import_module(name)
compileall.compile_dir(importlib.import_module("migrations").__path__[0], quiet=1)
END

mkdir -p "$root/etc" "$root/usr/bin" "$root/usr/lib" "$root/usr/lib64" "$root/usr/sbin" "$root/var/lib/dpkg"
for name in bin lib lib64 sbin; do ln -s "usr/$name" "$root/$name"; done
mkdir -m 1777 "$root/tmp" "$root/var/tmp"

# without symbols for debuggers; strip may break the libraries that wheels have renamed
find $ingot -name '*.so' -type f -not -path '*.libs/*' -exec strip --strip-unneeded {} +
cp --archive --parents $ingot "$(dirname "$python")"/python* "$root"
tar --create --exclude distutils --exclude ensurepip --exclude idlelib --exclude lib2to3 --exclude pydoc_data \
    --exclude site-packages --exclude test --exclude tkinter --exclude turtledemo --exclude '_dbm.*' --exclude '_test*.so' \
    "$stdlib" | tar --extract --directory "$root"

cp --dereference --parents $programs "$root"
for name in $(busybox --list); do [ -e "$root/usr/bin/$name" ] || ln -s busybox "$root/usr/bin/$name"; done
libraries=$({ echo "$python $programs"; find "$root" -name '*.so*' -type f; } \
    | xargs ldd 2>/dev/null | sed -n "\#$root#d; s#^\t\(.* => \)\?\(/[^ ]*\) (0x.*#\2#p" | sort -u)
cp --dereference --parents $libraries "$root"

cp --archive --parents /etc/passwd /etc/group /etc/nsswitch.conf /etc/os-release /usr/lib/os-release /etc/ld.so.conf* \
    /etc/ssl /usr/lib/ssl /usr/lib/*/ossl-modules /usr/share/ca-certificates /etc/ssh \
    /usr/share/ipmitool /usr/share/misc/enterprise-numbers.txt /var/lib/ingot "$root"
sed --in-place '/^    /d' "$root/usr/share/misc/enterprise-numbers.txt"  # names of vendors, without their contacts
ldconfig -r "$root"

# the packages whose files the image has, for scanners
(cd "$root" && find usr etc -type f) | sed 's#^#/#; p; s#^/usr##' | xargs dpkg-query --search 2>/dev/null | cut -d: -f1 \
    | sort -u | xargs dpkg-query --status >"$root/var/lib/dpkg/status"
