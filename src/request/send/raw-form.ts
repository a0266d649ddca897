/**
 * Which model a form (`multipart/form-data`) is about. The answer decides what a key may use, and the provider reads the
 * same bytes with a parser of its own; so a form is read only where no parser can see another one in it: every delimiter
 * is one for everybody, every part has the two plain headers that clients send, and `model` is there once. A library
 * reads more forms than that, which here would be the mistake.
 */

/** RFC 2046, 5.1.1, without the characters that parsers treat differently; browsers and clients use none of those. */
const FORM_TYPE = /^multipart\/form-data; ?boundary=("?)([A-Za-z0-9'_=.-]{1,70})\1$/
/** `filename` may say anything that stays within its quotes; a second `name` is not possible. */
const DISPOSITION =
  /^content-disposition: form-data; name="([^"\\%\r\n]+)"(; filename="[^"\\\r\n]*")?(; filename\*=utf-8''[\w%.~-]*)?$/i
const CONTENT_TYPE = /^content-type: ([ -~]+)$/i
const PLAIN_TEXT = /^text\/plain(; ?charset="?utf-8"?)?$/i
const MODEL = /^[!-~]{1,200}$/

const CRLF = '\r\n'
const MAX_HEADERS = 2048
const MAX_PARTS = 256

/** The value of the field `model`; null where there is none, or where two readers might not agree on it. */
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

/** What lies between the delimiters. Null unless each of them stands where one has to stand, and nothing is outside. */
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
  /** A field and not a file. */
  readonly isText: boolean
  readonly body: Buffer
}

function readPart(part: Buffer): Part | null {
  const end = part.subarray(0, MAX_HEADERS).indexOf(CRLF + CRLF)
  if (end === -1) return null
  let name: string | null = null
  let isText = true
  const seen = new Set<string>()
  // As UTF-8, because names of files are.
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

/** Also names that somebody's parser may take for it: `Model`, `model[]`, ` model`. */
function meansModel(name: string): boolean {
  return /^[\s\0-\x1f"'.[]*model(?![a-z0-9_-])/i.test(name.normalize('NFKC'))
}
