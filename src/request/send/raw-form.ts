/**
 * Finds the model that a form (`multipart/form-data`) names. The result decides whether a key may use the model, and the provider reads the
 * same bytes with its own parser. So a form is accepted only if every parser must read it the same way. Delimiters are unambiguous, parts
 * have only the two headers that clients send, and `model` occurs once. A library would accept more forms, which is wrong here.
 */

/** RFC 2046, 5.1.1, without the characters that parsers treat differently and that browsers and clients do not use. */
const FORM_TYPE = /^multipart\/form-data; ?boundary=("?)([A-Za-z0-9'_=.-]{1,70})\1$/
/** `filename` may be anything within its quotes; a second `name` is impossible. */
const DISPOSITION =
  /^content-disposition: form-data; name="([^"\\%\r\n]+)"(; filename="[^"\\\r\n]*")?(; filename\*=utf-8''[\w%.~-]*)?$/i
const CONTENT_TYPE = /^content-type: ([ -~]+)$/i
const PLAIN_TEXT = /^text\/plain(; ?charset="?utf-8"?)?$/i
const MODEL = /^[!-~]{1,200}$/

const CRLF = '\r\n'
const MAX_HEADERS = 2048
const MAX_PARTS = 256

/** The value of the field `model`; null if it is missing, or if two parsers might disagree. */
export function modelOfForm(contentType: string, body: Buffer): string | null {
  const boundary = FORM_TYPE.exec(contentType)?.[2]
  const parts = boundary === undefined ? null : partsOf(body, `--${boundary}`)
  let model: string | null = null
  for (const part of parts ?? []) {
    const read = readPart(part)
    if (read === null) return null
    if (!meansModel(read.name)) continue
    const value = read.isText ? read.body.toString('latin1') : ''
    if (model !== null || read.name !== 'model' || !MODEL.test(value)) return null
    model = value
  }
  return model
}

/** The parts between the delimiters. Null unless every delimiter is on its own line, with nothing outside of the parts. */
function partsOf(body: Buffer, delimiter: string): Buffer[] | null {
  const parts: Buffer[] = []
  if (body.indexOf(delimiter) !== 0) return null
  for (let at = 0; ; ) {
    const from = at + delimiter.length
    const next = body.indexOf(delimiter, from)
    if (next === -1) {
      const end = body.toString('latin1', from, from + 5)
      return end === '--' || end === `--${CRLF}` ? parts : null
    }
    const isLine = textAt(body, from) === CRLF && textAt(body, next - 2) === CRLF && next - 2 >= from + 2
    if (!isLine || parts.length === MAX_PARTS) return null
    parts.push(body.subarray(from + 2, next - 2))
    at = next
  }
}

const textAt = (body: Buffer, at: number) => body.toString('latin1', at, at + 2)

interface Part {
  readonly name: string
  /** Whether it is a field, not a file. */
  readonly isText: boolean
  readonly body: Buffer
}

function readPart(part: Buffer): Part | null {
  const end = part.subarray(0, MAX_HEADERS).indexOf(CRLF + CRLF)
  if (end === -1) return null
  let name: string | null = null
  let isText = true
  const seen = new Set<string>()
  // As UTF-8, because file names are.
  for (const line of part.toString('utf8', 0, end).split(CRLF)) {
    const [, field, filename, extended] = DISPOSITION.exec(line) ?? []
    const [, type] = CONTENT_TYPE.exec(line) ?? []
    const header = field === undefined ? (type === undefined ? null : 'type') : 'disposition'
    if (header === null || seen.has(header)) return null
    seen.add(header)
    if (field !== undefined) name = field
    if (filename !== undefined || extended !== undefined) isText = false
    if (type !== undefined && !PLAIN_TEXT.test(type)) isText = false
  }
  return name === null ? null : { name, isText, body: part.subarray(end + 4) }
}

/** Also names that some parser may take for `model`: `Model`, `model[]`, ` model`. */
function meansModel(name: string): boolean {
  return /^[\s\0-\x1f"'.[]*model(?![a-z0-9_-])/i.test(name.normalize('NFKC'))
}
