// Plain words for the words of the API, which stay beside them.

//: Verb -> what it does to a machine.
const VERBS = {
  manage: "check the BMC, or set aside", provide: "make available", inspect: "read the hardware", clean: "run cleaning steps",
  adopt: "take over as it runs", active: "install", deploy: "install", rebuild: "install again", deleted: "tear down",
  undeploy: "tear down", rescue: "boot a rescue system", unrescue: "back to its system", service: "run service steps",
  abort: "stop this", unhold: "go on",
};
//: Power state of a request -> a button.
export const POWER = {
  "power on": "switch on", "power off": "switch off", rebooting: "restart",
  "soft power off": "shut down", "soft rebooting": "restart by the system",
};
//: Kind of an operation that is no verb -> words.
const OTHERS = { power: "power", boot_mode: "boot mode", secure_boot: "secure boot", vmedia: "virtual media", vendor: "vendor function", refresh: "read facts again" };

export const plain = word => VERBS[word] || POWER[word] || OTHERS[word] || "";

// A word of the API with its plain words.
export const withPlain = word => (plain(word) ? `${word} (${plain(word)})` : word);

// "1 node", "5,000 nodes".
export const counted = (number, singular, plural = `${singular}s`) => `${number.toLocaleString()} ${number === 1 ? singular : plural}`;
