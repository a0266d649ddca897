/**
 * The kinds of problems that a configuration can have. Their ids are stable: CI systems group findings by them, and
 * people search for them. The sentence is what SARIF and src/config/README.md say of a kind.
 */

/** Each kind of problem with one sentence about it. */
export const RULES = {
  'unreadable-file': 'A file of the configuration cannot be read.',
  yaml: 'The text is not YAML that can be read without a doubt.',
  'duplicate-key': 'A map has the same key twice.',
  'unknown-key': 'A key that does not exist, mostly a misspelt one.',
  'missing-key': 'A key that has to be there is not.',
  'useless-key': 'A key that exists, and says nothing at this place.',
  'wrong-type': 'A value of another type than the key takes.',
  'wrong-unit': 'A text that is not of the unit that the key takes.',
  'out-of-bounds': 'A number, a size or a span that is too small or too large.',
  'wrong-value': 'A value that cannot be right.',
  'wrong-name': 'A name with characters that names cannot have.',
  'duplicate-entry': 'The same entry twice in a list or a map.',
  'missing-variable': 'An environment variable that is not set.',
  'missing-file': 'A file named by ${file:PATH} that cannot be read, or is no regular file of at most 1 MiB.',
  'wrong-reference': 'A ${…} that names nothing.',
  'written-secret': 'A secret that stands in the file itself.',
  'unknown-provider': 'A provider that the file does not have.',
  'unknown-model': 'A model that the catalog does not have.',
  'unknown-policy': 'A policy whose file cannot be read.',
  'unknown-plugin': 'A plugin that does not exist.',
  'broken-plugin': 'A plugin that cannot be loaded or is not well made.',
  'no-model': 'A route that asks a model, and no model that it could ask.',
  'no-price': 'Something without a price; what is free has to say so.',
  'price-list': 'A price list that cannot be read, or a mistake in one.',
  wildcard: 'An id with a * that cannot be any model.',
  'no-hold': 'A price that needs a hold, and a hold that cannot pay for it.',
  'unknown-path': 'A path that the gateway does not know.',
  'duplicate-path': 'Two routes with one path.',
  'unreachable-route': 'A route that no request can reach.',
  'duplicate-id': 'Two steps of a policy with one id.',
  order: 'A step that needs a fact which a later step gives.',
  'no-giver': 'A step that needs a fact which no step surely gives.',
  'given-twice': 'A fact that two steps give.',
  'critical-step': 'A step that guards keys, money or facts, switched so that it would not.',
  when: 'A condition that does not type-check at its place.',
  'constant-when': 'A condition that is always true.',
  'unreachable-step': 'A step that never runs on any route of its policy.',
  'open-route': 'A route that asks nobody for a key and does not say that this is meant.',
  'open-metrics': 'An admin listener that others can reach and that does not say who may read its metrics.',
  'uncharged-route': 'A route that gives away what has a price and does not say that this is meant.',
  'unfit-policy': 'A policy that does not fit the kind of a route that uses it.',
  'unknown-plan':
    'A plan that `plans` does not declare. Without `plans` a warning: a condition names a plan that no account has.',
  'odd-price': 'A warning: a price that gives away money or is probably mistyped.',
  'old-prices': 'A warning: a price list that is old, or a price that changes within 90 days.',
  'model-ends': 'A warning: a model that its provider turns off within 90 days.',
  'other-dialect': 'A warning: a base_url at a host that is known to speak another dialect.',
  'no-credential': 'A warning: a provider at a host that asks everybody for a credential, without one.',
  'late-limit':
    'A warning: a limit behind the step that sets money aside, or a limit or an identifying step without need behind one that reads the body.',
  'no-effect': 'A warning: a setting or a step that cannot have an effect.',
  'missing-finish': 'A note: a provider at a host that is not well known, which does not set missing_finish.',
  'lost-server': 'A server that the configuration names and that cannot be used; told by the start.',
  'needs-restart': 'A change of what cannot change while the gateway runs; told by a reload.',
} as const

/** The id of a kind of problem. */
export type Rule = keyof typeof RULES
