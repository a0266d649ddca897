import { describe, expect, test } from 'vitest'
import { modelOfForm } from '../../../src/request/send/raw-form.ts'
import { expectWithin } from '../../helpers/promised.ts'

const TYPE = 'multipart/form-data; boundary=cut'
const field = (name: string, value: string, more = '') =>
  `--cut\r\nContent-Disposition: form-data; name="${name}"${more}\r\n\r\n${value}\r\n`
const file = (name: string, bytes: string) =>
  `--cut\r\nContent-Disposition: form-data; name="${name}"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n${bytes}\r\n`
const END = '--cut--\r\n'

const read = (body: string | Buffer, type = TYPE) => modelOfForm(type, Buffer.from(body))

describe('a model is read if all parsers agree', () => {
  test.each<[string, string, string?]>([
    ['a field', field('model', 'ear') + END],
    ['after a file', file('file', '\0\xff--cu\r\n--\r\n') + field('model', 'ear') + END],
    ['before a file', field('model', 'ear') + file('file', '\r\n\r\n') + END],
    ['among others', field('prompt', 'model') + field('model', 'ear') + field('model_name', 'x') + END],
    ['without the last line end', `${field('model', 'ear')}--cut--`],
    ['a boundary in quotes', field('model', 'ear') + END, 'multipart/form-data; boundary="cut"'],
    [
      'a field with the type of text',
      `--cut\r\nContent-Disposition: form-data; name="model"\r\nContent-Type: text/plain; charset=utf-8\r\n\r\near\r\n${END}`,
    ],
    [
      'headers in another order and case',
      `--cut\r\ncontent-type: text/plain\r\ncontent-disposition: form-data; name="model"\r\n\r\near\r\n${END}`,
    ],
    [
      'a file with a name in two forms',
      `--cut\r\nContent-Disposition: form-data; name="file"; filename="a.wav"; filename*=utf-8''%C3%A4.wav\r\n\r\n\r\n${field('model', 'ear')}${END}`,
    ],
  ])('%s', (_title, body, type) => {
    expect(read(body, type)).toBe('ear')
  })

  test('as libraries write it', async () => {
    const form = new FormData()
    form.set('file', new File([Buffer.alloc(1000, 'a')], 'ä "b".wav', { type: 'audio/wav' }))
    form.set('model', 'ear')
    form.append('timestamp_granularities[]', 'word')
    const request = new Response(form)
    expect(read(Buffer.from(await request.arrayBuffer()), request.headers.get('content-type')!)).toBe('ear')
  })
})

describe('no model is read if two parsers might disagree', () => {
  test.each<[string, string, string?]>([
    ['no model', field('prompt', 'x') + END],
    ['nothing', ''],
    ['only the end', END],
    ['two models', field('model', 'ear') + field('model', 'other') + END],
    ['the model twice', field('model', 'ear') + field('model', 'ear') + END],
    ['only a name in capitals', field('MODEL', 'ear') + END],
    ['only a list', field('model[]', 'ear') + END],
    ['only a file', file('model', 'ear') + END],
    ['a second name as a list', field('model', 'ear') + field('model[]', 'other') + END],
    ['a second name in capitals', field('model', 'ear') + field('MODEL', 'other') + END],
    ['a second name after a blank', field('model', 'ear') + field(' model', 'other') + END],
    ['a second name before a blank', field('model', 'ear') + field('model ', 'other') + END],
    ['a second name in full width', field('model', 'ear') + field('ｍodel', 'other') + END],
    ['a model as a file', field('model', 'ear', '; filename="x"') + END],
    ['a second model as a file', field('model', 'ear') + file('model', 'other') + END],
    ['a second name in the same header', field('model', 'ear', '; name="prompt"') + END],
    [
      'another field with the name as its second one',
      field('model', 'ear') + field('x', 'other', '; name="model"') + END,
    ],
    ['an extended name', field('model', 'ear') + field('x', 'other', "; name*=utf-8''model") + END],
    [
      'a name without quotes',
      `${field('model', 'ear')}--cut\r\nContent-Disposition: form-data; name=model\r\n\r\nother\r\n${END}`,
    ],
    ['an escaped name', field('model', 'ear') + field('\\model', 'other') + END],
    ['an encoded name', field('model', 'ear') + field('%6dodel', 'other') + END],
    [
      'a header that encodes',
      `--cut\r\nContent-Disposition: form-data; name="model"\r\nContent-Transfer-Encoding: base64\r\n\r\nZWFy\r\n${END}`,
    ],
    ['a folded header', `--cut\r\nContent-Disposition: form-data;\r\n name="model"\r\n\r\near\r\n${END}`],
    [
      'two dispositions',
      `--cut\r\nContent-Disposition: form-data; name="model"\r\nContent-Disposition: form-data; name="x"\r\n\r\near\r\n${END}`,
    ],
    ['no disposition', `--cut\r\nContent-Type: text/plain\r\n\r\near\r\n${END}`],
    [
      'a model in another charset',
      `--cut\r\nContent-Disposition: form-data; name="model"\r\nContent-Type: text/plain; charset=utf-7\r\n\r\near\r\n${END}`,
    ],
    [
      'a model that is JSON',
      `--cut\r\nContent-Disposition: form-data; name="model"\r\nContent-Type: application/json\r\n\r\n"ear"\r\n${END}`,
    ],
    [
      'a form in the form',
      `--cut\r\nContent-Disposition: form-data; name="x"\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\n--b--\r\n${field('model', 'a b')}${END}`,
    ],
    ['text before the form', `preamble\r\n${field('model', 'ear')}${END}`],
    ['a line end before the form', `\r\n${field('model', 'ear')}${END}`],
    ['text after the form', `${field('model', 'ear')}${END}epilogue`],
    ['a form after the form', `${field('model', 'ear')}${END}${field('model', 'other')}${END}`],
    ['no end', field('model', 'ear')],
    ['line ends without CR', (field('model', 'ear') + END).replaceAll('\r', '')],
    [
      'a delimiter with blanks in a file',
      file('file', `x\r\n--cut \r\n${field('model', 'other').slice(7)}`) + field('model', 'ear') + END,
    ],
    ['a delimiter in the middle of a line', file('file', 'x--cut\r\n') + field('model', 'ear') + END],
    ['a delimiter after LF', `${file('file', 'x').slice(0, -2)}\n--cut\r\n${field('model', 'ear')}${END}`],
    ['a longer delimiter', `${field('model', 'ear')}--cutter\r\n${END}`],
    ['a model of several lines', field('model', 'ear\r\nother') + END],
    ['an empty model', field('model', '') + END],
    ['a model with a blank', field('model', 'ear ') + END],
    ['a model beyond ASCII', field('model', 'é') + END],
    ['a long model', field('model', 'e'.repeat(201)) + END],
    ['endless headers', `--cut\r\nContent-Type: ${'x'.repeat(5000)}\r\n\r\n\r\n${field('model', 'ear')}${END}`],
    ['too many parts', field('x', '').repeat(300) + field('model', 'ear') + END],
    ['no boundary', field('model', 'ear') + END, 'multipart/form-data'],
    ['an empty boundary', field('model', 'ear') + END, 'multipart/form-data; boundary='],
    ['two boundaries', field('model', 'ear') + END, 'multipart/form-data; boundary=cut; boundary=x'],
    ['a charset beside the boundary', field('model', 'ear') + END, 'multipart/form-data; charset=utf-16; boundary=cut'],
    ['a boundary with an escape', field('model', 'ear') + END, 'multipart/form-data; boundary="c\\ut"'],
    ['another kind of multipart', field('model', 'ear') + END, 'multipart/mixed; boundary=cut'],
  ])('%s', (_title, body, type) => {
    expect(read(body, type)).toBe(null)
  })

  test('a large form is read quickly', () => {
    const body = Buffer.concat([Buffer.from('--cut\r\n'), Buffer.alloc(16 * 1024 * 1024, '\r\n--cu')])
    const startedMs = performance.now()
    expect(read(body)).toBe(null)
    expectWithin(performance.now() - startedMs, 1000)
  })
})
