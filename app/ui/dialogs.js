// Dialogs and notices.

import { element } from "./dom.js";

// Show a dialog over the page. `buttons`: rows { label, kind, act }; `act` may return false, or a
// promise of it, to keep the dialog open; one act runs at a time. `first`: an act that runs as the
// dialog opens. Return a promise of its end.
export function dialog(title, content, buttons, first) {
  return new Promise(done => {
    const box = element("dialog", { "aria-labelledby": "dialog-title" });
    const end = () => { box.remove(); done(); };
    const acts = buttons.map(({ label, kind, act }) => element(`button${kind ? `.${kind}` : ""}`,
      { type: "button", onclick: () => run(act) }, label));
    const disable = disabled => acts.forEach(button => { button.disabled = disabled; });
    const run = async act => {
      disable(true);
      try {
        if (await act() !== false) box.close();
      } finally {
        disable(false);
      }
    };
    box.append(
      element("h2", { id: "dialog-title" }, title),
      element("div.inside", {}, content),
      element("div.buttons", {},
        element("button", { type: "button", onclick: () => box.close() }, "Close"),
        acts));
    box.addEventListener("close", end);
    document.body.append(box);
    box.showModal();
    if (first) run(first);
  });
}

// Tell the user something that needs no answer.
export function notice(words, kind = "") {
  const box = element(`p.notice${kind ? `.${kind}` : ""}`, {}, words,
    element("button", { type: "button", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  document.getElementById("notices").append(box);
  setTimeout(() => box.remove(), 8000);
}
