// The page of an address that `states/console` returns: it shows the screen of a machine once.

import { empty, replace } from "./dom.js";
import { screenOf } from "./screen.js";

const NODES = new URL("../v1/nodes/", import.meta.url).href;
const LAST = "This address shows the screen once. `baremetal node console show` returns another one.";

const path = new URLSearchParams(location.search).get("path") || "";
const url = new URL(`/${path}`, location.origin);
history.replaceState(null, "", location.pathname); // its ticket is of no use any more
const main = document.getElementById("main");

function open() {
  if (!url.searchParams.has("token")) throw Object.assign(new Error(LAST), { lasts: true });
  const address = new URL(url);
  address.protocol = address.protocol.replace("http", "ws");
  url.searchParams.delete("token");
  return { url: address, protocols: ["ingot.console"], state: "connecting" };
}

// only consoles of this service: another address could show anything in its name
if (url.href.startsWith(NODES) && /^[^/]+\/console\/stream\?token=/.test(url.href.slice(NODES.length)))
  replace(main, ...screenOf(async () => open()));
else replace(main, empty(LAST));
