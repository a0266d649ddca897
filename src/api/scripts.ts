/**
 * Refuses registrations with an address that looks like another one, because letters of two scripts look the same: `pаypal` with a Cyrillic
 * а. An operator can invite such an address.
 */
import { refuse } from '#contract'

/** The scripts of modern names (UAX #31, table 5). */
const SCRIPTS =
  'Latin Cyrillic Greek Arabic Armenian Bengali Bopomofo Devanagari Ethiopic Georgian Gujarati Gurmukhi Han Hangul Hebrew Hiragana Kannada Katakana Khmer Lao Malayalam Myanmar Oriya Sinhala Tamil Telugu Thaana Thai Tibetan'.split(
    ' ',
  )
/** Scripts that ordinary words mix (UTS #39, highly restrictive). */
const TOGETHER = ['Latin Han Hiragana Katakana', 'Latin Han Bopomofo', 'Latin Han Hangul'].map(set => set.split(' '))

const letterOf = (scripts: readonly string[]) => scripts.map(name => `\\p{Script_Extensions=${name}}`).join('')
const ONE_SCRIPT = [...SCRIPTS.map(name => [name]), ...TOGETHER].map(
  set => new RegExp(`^(?:[${letterOf(set)}]|\\P{L})*$`, 'u'),
)
const HAS = SCRIPTS.map(name => [name, new RegExp(`(?=\\p{L})\\p{Script=${name}}`, 'u')] as const)

/** Cyrillic and Greek letters that look Latin. A part with only these looks Latin too, beside Latin parts. */
const LIKE_LATIN = /^(?=.*\p{L})(?:[асеорхуѕіјһԁԛԝүӏαικνορυϲ]|\P{L})+$/u
const LATIN = /\p{Script=Latin}/u

/** Throws `invalid_value` for an address with a part that mixes scripts, or looks Latin. @param email normalized */
export function refuseMixedScripts(email: string): void {
  const at = email.lastIndexOf('@')
  const parts = [email.slice(0, at), ...email.slice(at + 1).split('.')]
  for (const part of parts) {
    if (!ONE_SCRIPT.some(script => script.test(part))) {
      const found = HAS.filter(([, has]) => has.test(part)).map(([name]) => name)
      throw refused(`mixes ${found.length > 1 ? found.join(' and ') : 'rare'} letters`)
    }
    if (LIKE_LATIN.test(part) && LATIN.test(email))
      throw refused('has letters of another script that look like Latin ones')
  }
}

function refused(what: string) {
  return refuse('invalid_value', {
    message: `This e-mail address ${what} and looks like another one. An operator can invite it.`,
    param: 'email',
  })
}
