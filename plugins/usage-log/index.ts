/**
 * Writes a line for each exchange to a file: caller, verdict of each step, usage and cost. As the first step it records refused
 * exchanges too. `tollgate replay` reads the file. Writing never delays or fails an exchange.
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
  description: 'Writes a line for each exchange to a file, for people and for `tollgate replay`.',
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
        description: 'The path of the file; a relative path begins at the folder of the policy. The folder must exist.',
      },
      bodies: {
        enum: ['none', 'hash', 'keep'],
        default: 'none',
        description: 'The part of a request in its line: its size and form, also its SHA-256, or the whole body.',
      },
      headers: {
        type: 'array',
        maxItems: 32,
        uniqueItems: true,
        default: [],
        description: 'Request headers in the line, none that carries a key, a token or a cookie.',
        items: {
          type: 'string',
          maxLength: 128,
          pattern:
            "^(?!.*(?:authoriz|cookie|token|secret|passw|api-?key|credential|signature|jwt|oidc|assertion))[a-z0-9!#$%&'*+.^_`|~-]+$",
          sentence: 'must be the name of a header in lower case that carries no secret',
        },
      },
      address: {
        type: 'boolean',
        default: false,
        description: 'Whether lines have the address of the client.',
      },
      max_size: {
        ...unit('bytes'),
        within: { unit: 'bytes', from: '64KiB', to: '1000GiB' },
        default: '100MiB',
        description: 'A file that would become larger is renamed to FILE.1, and a new one begins.',
      },
      keep: {
        type: 'integer',
        minimum: 1,
        maximum: 1000,
        default: 10,
        description: 'The number of renamed files to keep; older ones are deleted.',
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
