// Dialogs and notices.

import { element } from "./dom.js";

// Show a dialog over the page. `buttons`: rows { label, kind, act }; `act` may return false, or a
// promise of it, to keep the dialog open. Return a promise of its end.
export function dialog(title, content, buttons) {
  return new Promise(done => {
    const box = element("dialog", { "aria-labelledby": "dialog-title" });
    const end = () => { box.remove(); done(); };
    const press = async ({ act }, button) => {
      button.disabled = true;
      try {
        if (await act?.() !== false) box.close();
      } finally {
        button.disabled = false;
      }
    };
    box.append(
      element("h2", { id: "dialog-title" }, title),
      element("div.inside", {}, content),
      element("div.buttons", {},
        element("button", { type: "button", onclick: () => box.close() }, "Close"),
        buttons.map(each => {
          const button = element(`button${each.kind ? `.${each.kind}` : ""}`,
            { type: "button", onclick: () => press(each, button) }, each.label);
          return button;
        })));
    box.addEventListener("close", end);
    document.body.append(box);
    box.showModal();
  });
}

// Tell the user something that needs no answer.
export function notice(words, kind = "") {
  const box = element(`p.notice${kind ? `.${kind}` : ""}`, {}, words,
    element("button", { type: "button", "aria-label": "Dismiss", onclick: () => box.remove() }, "×"));
  document.getElementById("notices").append(box);
  setTimeout(() => box.remove(), 8000);
}
