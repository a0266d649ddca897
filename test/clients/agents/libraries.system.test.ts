/** The Python samples of src/request/AGENTS-AND-APPS.md, unchanged except for address and key. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { onlyFull } from '../../helpers/counts.ts'
import { inLanguage } from '../../helpers/doc-samples.ts'
import { createAccount, startGateway } from '../../helpers/gateway.ts'
import { PRICE } from '../../helpers/in-process.ts'
import { describeWith } from '../../helpers/missing.ts'
import { cleanEnvironment, pipPackage } from '../polyglot/toolchains.ts'
import { newHome } from './session.ts'
import { PAGE, readRows, UPDATE, writeRows } from './table.ts'

/** The package, its version, and the module that the sample imports. */
const LIBRARIES: Readonly<Record<string, readonly [name: string, version: string, module: string]>> = {
  LangChain: ['langchain-openai', '1.7.4', 'langchain_openai'],
  LlamaIndex: ['llama-index-llms-openai-like', '0.8.1', 'llama_index'],
  'pydantic-ai': ['pydantic-ai-slim[openai]', '2.68.0', 'pydantic_ai'],
  DSPy: ['dspy', '3.4.1', 'dspy'],
  smolagents: ['smolagents[openai]', '1.26.0', 'smolagents'],
  Haystack: ['haystack-ai', '3.4.1', 'haystack'],
}

const ran = new Map<string, readonly string[]>()

describeWith(onlyFull('clients'), 'samples for libraries', () => {
  describe.each(Object.entries(LIBRARIES))('%s', (library, [name, version, module]) => {
    test('its sample prints the answer', async context => {
      const python = await pipPackage(name, version, 'python', module).catch((error: Error) => error)
      if (python instanceof Error) return context.skip(python.message)
      using home = newHome()
      const gateway = await startGateway({
        yaml: {
          version: 1,
          listen: '127.0.0.1:0',
          providers: { demo: { dialect: 'demo', pace: '1ms' } },
          models: {
            'demo-small': {
              targets: [{ provider: 'demo', model: 'demo-small' }],
              price: PRICE,
              context: '128Ki',
              max_output: '16Ki',
            },
          },
          routes: [{ path: '/v1/chat/completions', policy: 'standard' }],
        },
        policies: { standard: { steps: ['api-key', 'schema', 'credits', 'route'].map(use => ({ use })) } },
      })
      const { key } = await createAccount(gateway, { credit: '1' })
      const sample = inLanguage('python', PAGE).find(({ text }) => new RegExp(`(from|import) ${module}\\b`).test(text))!
      const code = sample.text.replaceAll('http://127.0.0.1:8080', gateway.url).replaceAll('tg_live_...', key)
      const env = {
        ...cleanEnvironment(),
        HOME: home.folder,
        CREWAI_DISABLE_TELEMETRY: 'true',
        OTEL_SDK_DISABLED: 'true',
      }
      const { stdout } = await promisify(execFile)(python, ['-c', code], { env, cwd: join(home.folder, 'work') })
      expect(stdout).toMatch(/\w{3}/)
      const { status, prompt_tokens } = await gateway.waitForLog(({ msg }) => msg === 'exchange')
      expect(status).toBe(200)
      expect(prompt_tokens).toBeGreaterThan(0)
      expect(await gateway.stop()).toBe(0)
      ran.set(library, [`\`${name}\` ${version}`])
      if (!UPDATE) expect(readRows('libraries').get(library)?.slice(0, -1)).toEqual(ran.get(library))
    })
  })

  afterAll(() => void (UPDATE && writeRows('libraries', Object.keys(LIBRARIES), ran)))
})
