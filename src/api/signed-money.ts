/** Amounts of money that may be below zero, as people write them. */
import { type NanoUsd, parseMoney } from '../contract/quantities.ts'

// The second sign is that of texts for people, such as the dashboard's.
const MINUS = /^\s*(\$?)[-\u2212](?=[$\d])/

/** Like `parseMoney`; `-5`, `-$5` and `$-5` are the same. */
export function parseSignedMoney(text: string): NanoUsd {
  return MINUS.test(text) ? -parseMoney(text.replace(MINUS, '$1')) : parseMoney(text)
}
