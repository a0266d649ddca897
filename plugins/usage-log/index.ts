/**
 * A line for every exchange, in a file: who asked for what, what each step said, what it used and cost. Also of those
 * that were refused, so it stands first. It is what `tollgate replay` reads; nothing of it can hold up or fail an exchange.
 */
import { definePlugin, isRefusal, unit } from '#contract'
import { type Bodies, lineOf } from './line.ts'
import { openLines, pathOf, whyNotOpened } from './writer.ts'

interface Settings {
  readonly file: string
  readonly bodies: Bodies
  readonly headers: readonly string[]
  readonly address: boolean
  readonly max_size: number
  readonly keep: number
}

export default definePlugin({
  name: 'usage-log',
  description: 'Writes a line for every exchange to a file, for people and for `tollgate replay`.',
  records: true,
  needsBody: false,
  uses: ['clock', 'log'],
  settings: {
    type: 'object',
    additionalProperties: false,
    required: ['file'],
    properties: {
      file: {
        type: 'string',
        minLength: 1,
        maxLength: 4096,
        pattern: '^[^\\u0000-\\u001f]+$',
        sentence: 'must be the path of a file',
        description:
          'Where the lines go; a relative path begins at the folder of the policy. The folder must be there.',
      },
      bodies: {
        enum: ['none', 'hash', 'keep'],
        default: 'none',
        description: 'What the line has of the request: its size and form only, its SHA-256 too, or every word of it.',
      },
      headers: {
        type: 'array',
        maxItems: 32,
        uniqueItems: true,
        default: [],
        description: 'Request headers that the line has. None that carries a key, a token or a cookie.',
        items: {
          type: 'string',
          maxLength: 128,
          pattern:
            "^(?!.*(?:authoriz|cookie|token|secret|passw|api-?key|credential|signature|jwt|oidc|assertion))[a-z0-9!#$%&'*+.^_`|~-]+$",
          sentence: 'must be a header’s name in lower case, and of no header that carries a secret',
        },
      },
      address: {
        type: 'boolean',
        default: false,
        description: 'Whether the line has the client’s address.',
      },
      max_size: {
        ...unit('bytes'),
        within: { unit: 'bytes', from: '64KiB', to: '1000GiB' },
        default: '100MiB',
        description: 'When the file would become larger, it is renamed to FILE.1 and a new one begins.',
      },
      keep: {
        type: 'integer',
        minimum: 1,
        maximum: 1000,
        default: 10,
        description: 'How many renamed files stay; the oldest one goes.',
      },
    },
  },
  check({ file }: Settings, { folder }) {
    const path = pathOf(file, folder)
    const why = whyNotOpened(path)
    return why === null ? [] : [{ at: '/file', message: `${path} ${why}` }]
  },
  create({ file, bodies, headers, address, max_size, keep }: Settings, { clock, log }, { folder }) {
    const lines = openLines(pathOf(file, folder), { maxBytes: max_size, keep }, { clock, log })
    const options = { bodies, headers, address }
    return {
      decide() {},
      after(ctx, _outcome, _kept, error) {
        const refusal = error === undefined ? null : isRefusal(error) ? error : 'bug'
        lines.write(() => lineOf(ctx, refusal, clock.now(), options))
      },
      dispose: () => lines.close(),
    }
  },
})
