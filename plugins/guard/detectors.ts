/** The built-in detectors: a pattern for each name, and a checksum where the format has one. */

export interface Detector {
  readonly pattern: string
  /** A further test of a match: its checksum. */
  readonly check?: (match: string) => boolean
}

const OCTET = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'

// RFC 5321, 4.5.3.1 and RFC 6531: also in the letters of other languages. All characters are of one class: with another class
// for the first one, the automaton would have to track each of the last 64.
const LOCAL = String.raw`[\p{L}\p{N}._%+\-]{1,64}`
const LABEL = String.raw`[\p{L}\p{N}\-]`
const TOP = String.raw`(?:\p{L}{2,18}|xn--[a-z0-9]{1,12})`

/** By their names in `detect`. */
export const DETECTORS: Readonly<Record<string, Detector>> = {
  // The longest match has to fit the default `window`.
  email: { pattern: `${LOCAL}@(?:${LABEL}{1,40}\\.){1,2}(?:${LABEL}{1,20}\\.){0,3}${TOP}` },
  // With a country code in any notation, or the North American notation with separators.
  phone: {
    pattern: String.raw`(?:\+[1-9](?:[ .\-()]{0,2}[0-9]){6,14}|(?:\(|\b)[2-9][0-9]{2}\)?[ .\-][0-9]{3}[ .\-][0-9]{4})\b`,
  },
  // Digits only, groups of four, or the groups of American Express and Diners.
  'credit-card': {
    pattern: String.raw`\b(?:[0-9]{13,19}|[0-9]{4}(?:[ \-][0-9]{4}){2}[ \-][0-9]{1,4}(?:[ \-][0-9]{1,3})?|[0-9]{4}[ \-][0-9]{6}[ \-][0-9]{4,5})\b`,
    check: isCardNumber,
  },
  iban: {
    pattern: String.raw`\b[A-Z]{2}[0-9]{2}(?:[A-Z0-9]{11,30}|(?: [A-Z0-9]{4}){2,7}(?: [A-Z0-9]{1,4})?)\b`,
    check: isIban,
  },
  ipv4: { pattern: String.raw`\b(?:${OCTET}\.){3}${OCTET}\b` },
  'aws-key': { pattern: String.raw`\b(?:AKIA|ASIA|AROA|AIDA|AGPA)[A-Z2-7]{16}\b` },
  // With any prefix after the first dash (projects, service accounts). Other vendors use this form too.
  'openai-key': { pattern: String.raw`\bsk-[A-Za-z0-9_\-]{20,200}` },
  'github-token': { pattern: String.raw`\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{22,100})\b` },
}

/** At least 13 digits with a valid Luhn sum: every second digit from the right counts twice. */
function isCardNumber(match: string): boolean {
  let sum = 0
  let digits = 0
  for (let at = match.length - 1; at >= 0; at--) {
    const digit = match.charCodeAt(at) - 48
    // A space or a dash.
    if (digit < 0) continue
    const twice = digits++ % 2 === 1 ? digit * 2 : digit
    sum += twice > 9 ? twice - 9 : twice
  }
  // The Luhn sum of zeros is valid too.
  return digits >= 13 && sum > 0 && sum % 10 === 0
}

/** The length of IBANs by country, in characters (ISO 13616). */
const IBAN_LENGTHS: ReadonlyMap<string, number> = new Map(
  (
    'AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DK18 DO28 EE20 EG29 ES24 FI18 FO18 ' +
    'FR27 GB22 GE22 GI23 GL18 GR27 GT28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 LB28 LC32 LI21 LT20 LU20 LV21 ' +
    'LY25 MC27 MD24 ME22 MK19 MR27 MT31 MU30 NL18 NO15 PK24 PL28 PS29 PT25 QA29 RO24 RS22 SA24 SC31 SE24 SI19 SK24 SM27 ' +
    'ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20'
  )
    .split(' ')
    .map(word => [word.slice(0, 2), Number(word.slice(2))]),
)

/** Checks the length of the country, and ISO 7064: with the first four characters at the end and letters as numbers, mod 97 is 1. */
function isIban(match: string): boolean {
  const text = match.replaceAll(' ', '')
  if (IBAN_LENGTHS.get(text.slice(0, 2)) !== text.length) return false
  let remainder = 0
  for (const character of text.slice(4) + text.slice(0, 4)) {
    const value = Number.parseInt(character, 36)
    remainder = (remainder * (value > 9 ? 100 : 10) + value) % 97
  }
  return remainder === 1
}
