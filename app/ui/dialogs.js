// Dialogs and notices.

import { element } from "./dom.js";

// Show a dialog over the page. `buttons`: rows { label, kind, act }; `act` may return false, or a
// promise of it, to keep the dialog open; one action runs at a time. `firstAction` runs when the
// dialog opens. Return a promise that is fulfilled when it closes.
export function dialog(title, content, buttons, firstAction) {
  return new Promise(finish => {
    const box = element("dialog", { "aria-labelledby": "dialog-title" });
    const end = () => { box.remove(); finish(); };
    const acts = buttons.map(({ label, kind, act: action }) => element(`button${kind ? `.${kind}` : ""}`,
      { type: "button", onclick: () => run(action) }, label));
    const disable = disabled => acts.forEach(button => { button.disabled = disabled; });
    const run = async action => {
      disable(true);
      try {
        if (await action() !== false) box.close();
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
    if (firstAction) run(firstAction);
  });
}

// Await an action; tell the user its error.
export async function reporting(action) {
  try {
    await action();
  } catch (error) {
    notice(error.message, "bad");
  }
}

// Tell the user something that needs no answer.
export function notice(content, kind = "") {
  const box = element(`p.notice${kind ? `.${kind}` : ""}`, {}, content,
    element("button", { type: "button", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  document.getElementById("notices").append(box);
  setTimeout(() => box.remove(), 8000);
}
