/** The most common passwords, which an attacker tries first. */
import { refuse } from '#contract'
import { formerEmail } from '../store/people/email.ts'

/** The most common ones of sufficient length in lists of stolen passwords. */
const COMMONEST: ReadonlySet<string> = new Set(
  `12345678 123456789 1234567890 0123456789 9876543210 987654321 87654321 12341234 123123123 123321123 11223344
  1122334455 112233445566 12344321 1q2w3e4r 1q2w3e4r5t 1qaz2wsx 1qaz2wsx3edc qazwsxedc zaq12wsx q1w2e3r4 q1w2e3r4t5
  qwertyui qwertyuiop qwerty12 qwerty123 qwerty1234 qwertz123 asdfghjk asdfghjkl asdf1234 zxcvbnm1 zxcvbnm123 abcd1234
  abc12345 abcdefgh abcdefg1 a1b2c3d4 aa123456 a1234567 a12345678 password password1 password12 password123
  password1234 password! password1! passw0rd p@ssword p@ssw0rd pa$$word pa$$w0rd passwort passwort1 passwort123
  mypassword changeme changeme1 changeme123 letmein1 letmein123 welcome1 welcome123 iloveyou iloveyou1 sunshine
  princess football baseball basketball superman trustno1 whatever starwars computer internet michelle jennifer
  samsung1 dragon123 monkey123 admin123 admin1234 administrator root1234 test1234 testtest secret123 default1
  tollgate tollgate1 tollgate123`.split(/\s+/),
)

/**
 * Refuses a new password that is among the most common ones, repeats one character, or is the e-mail address.
 *
 * @param param the field of the password
 */
export function refuseGuessable(password: string, email: string, param: 'password' | 'new'): void {
  const text = password.normalize('NFC').toLowerCase()
  const repeats = new Set(text).size === 1
  if (!repeats && !COMMONEST.has(text) && text !== formerEmail(email)) return
  throw refuse('invalid_value', {
    message:
      'This password is easy to guess: a common one, one character repeated, or the e-mail address. Choose another.',
    param,
  })
}
