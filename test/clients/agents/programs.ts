/** The programs: their packages, their configuration for the gateway, and the tool that the provider calls. */
import { DIALECTS, type Dialect } from './provider.ts'
import type { Tool } from './rig.ts'

/** The values of one turn. */
export interface Launch {
  /** The gateway's address without `/v1`. */
  readonly url: string
  readonly key: string
  readonly model: string
  readonly prompt: string
  /** Continues the last conversation. */
  readonly resume: boolean
  readonly home: string
}

export interface Program {
  /** The package, its version and its command. */
  readonly from: 'npm' | 'pip'
  readonly name: string
  readonly version: string
  readonly bin: string
  /** Empty if it has no tools. */
  readonly tools: readonly Tool[]
  /** Model names in its requests. The program may know the name. Default: an unknown one. */
  readonly models?: Readonly<Partial<Record<Dialect, string>>>
  /** Requests that the gateway refuses and the program does not need: `METHOD PATH`. */
  readonly refused?: readonly string[]
  /** Default: yes. It may need a terminal. */
  readonly resumes?: boolean
  /** With a full context it finds the conversation too short to compact, and exits without output. */
  readonly isSilentWhenFull?: boolean
  /** The gateway's refusal of the compacted conversation. Default: none. */
  readonly refusedCompacted?: Readonly<Partial<Record<Dialect, string>>>
  launch(launch: Launch): {
    readonly args: readonly string[]
    readonly env: Readonly<Record<string, string>>
    /** In the home folder. */
    readonly files?: Readonly<Record<string, string>>
    /** A configuration command that runs before the first prompt. */
    readonly before?: { readonly args: readonly string[]; readonly input?: string }
  }
}

/** A program that is installed. */
export interface InstalledProgram {
  readonly command: string
}

const shell = (name: string, more: object = {}): Tool => [name, at => ({ command: `echo hello-${at}`, ...more })]

const CODEX = { from: 'npm', name: '@openai/codex', version: '0.171.0', bin: 'codex' } as const

const codexArgs = (prompt: string, resume: boolean): string[] => [
  'exec',
  ...(resume ? ['resume', '--last'] : []),
  '--skip-git-repo-check',
  '--dangerously-bypass-approvals-and-sandbox',
  prompt,
]

const modelEverywhere = (name: string) => Object.fromEntries(DIALECTS.map(dialect => [dialect, name]))

/** By the name of the table's row. */
export const PROGRAMS: Readonly<Record<string, Program>> = {
  'Codex CLI': {
    ...CODEX,
    tools: [['exec_command', at => ({ cmd: `echo hello-${at}` })]],
    launch: ({ url, key, model, prompt, resume }) => ({
      args: codexArgs(prompt, resume),
      env: { TOLLGATE_KEY: key },
      files: {
        '.codex/config.toml': `model = "${model}"
model_provider = "tollgate"
[model_providers.tollgate]
name = "Tollgate"
base_url = "${url}/v1"
env_key = "TOLLGATE_KEY"
`,
      },
    }),
  },
  'Codex CLI, `openai_base_url`': {
    ...CODEX,
    // Codex knows this name: its only tool takes a program as text.
    models: modelEverywhere('gpt-6.2-sol'),
    tools: [
      [
        'functions__exec',
        at => ({ input: `const { output } = await tools.exec_command({ cmd: "echo hello-${at}" }); text(output)` }),
      ],
    ],
    // It tries a WebSocket first.
    refused: ['GET /v1/responses'],
    launch: ({ url, key, model, prompt, resume }) => ({
      args: codexArgs(prompt, resume),
      env: {},
      files: { '.codex/config.toml': `model = "${model}"\nopenai_base_url = "${url}/v1"\n` },
      before: { args: ['login', '--with-api-key'], input: key },
    }),
  },
  'Claude Code': {
    from: 'npm',
    name: '@anthropic-ai/claude-code',
    version: '2.1.332',
    bin: 'claude',
    tools: [shell('Bash', { description: 'Say hello' })],
    // It checks whether it is online, and continues.
    refused: ['HEAD /api/hello'],
    launch: ({ url, key, model, prompt, resume }) => ({
      args: [...(resume ? ['-c'] : []), '-p', prompt, '--allowedTools', 'Bash'],
      env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: key, ANTHROPIC_MODEL: model },
    }),
  },
  'Copilot CLI': {
    from: 'npm',
    name: '@github/copilot',
    version: '1.0.102',
    bin: 'copilot',
    tools: [shell('bash', { description: 'Say hello' })],
    launch: ({ url, key, model, prompt, resume }) => ({
      args: [...(resume ? ['--continue'] : []), '-p', prompt, '--allow-all-tools'],
      env: { COPILOT_PROVIDER_BASE_URL: `${url}/v1`, COPILOT_PROVIDER_API_KEY: key, COPILOT_MODEL: model },
    }),
  },
  'Continue CLI': {
    from: 'npm',
    name: '@continuedev/cli',
    version: '1.5.47',
    bin: 'cn',
    tools: [shell('Bash')],
    launch: ({ url, key, model, prompt, resume, home }) => ({
      args: ['--config', `${home}/.continue/config.yaml`, '--auto', ...(resume ? ['--resume'] : []), '-p', prompt],
      env: {},
      files: {
        '.continue/config.yaml': `name: Tollgate
version: 1.0.0
schema: v1
models:
  - { name: tollgate, provider: openai, model: ${model}, apiBase: ${url}/v1, apiKey: ${key}, roles: [chat] }
`,
      },
    }),
  },
  pi: {
    from: 'npm',
    name: '@earendil-works/pi-coding-agent',
    version: '1.6.0',
    bin: 'pi',
    tools: [shell('bash')],
    isSilentWhenFull: true,
    launch: ({ url, key, model, prompt, resume }) => ({
      args: [...(resume ? ['-c'] : []), '--model', `tollgate/${model}`, '-p', prompt],
      env: { TOLLGATE_KEY: key, PI_OFFLINE: '1' },
      files: {
        '.pi/agent/models.json': JSON.stringify({
          providers: {
            tollgate: {
              baseUrl: `${url}/v1`,
              api: 'openai-completions',
              apiKey: '$TOLLGATE_KEY',
              models: [{ id: model }],
            },
          },
        }),
      },
    }),
  },
  opencode: {
    from: 'npm',
    name: 'opencode-ai',
    version: '1.18.33',
    bin: 'opencode',
    tools: [shell('bash', { description: 'Say hello' })],
    launch: ({ url, key, model, prompt, resume }) => ({
      args: ['run', ...(resume ? ['-c'] : []), '-m', `tollgate/${model}`, prompt],
      env: { TOLLGATE_KEY: key, OPENCODE_DISABLE_AUTOUPDATE: '1', OPENCODE_DISABLE_MODELS_FETCH: '1' },
      files: {
        '.config/opencode/opencode.json': JSON.stringify({
          provider: {
            tollgate: {
              npm: '@ai-sdk/openai-compatible',
              options: { baseURL: `${url}/v1`, apiKey: '{env:TOLLGATE_KEY}' },
              models: { [model]: {} },
            },
          },
        }),
      },
    }),
  },
  'Qwen Code': {
    from: 'npm',
    name: '@qwen-code/qwen-code',
    version: '0.24.4',
    bin: 'qwen',
    tools: [shell('run_shell_command', { description: 'Say hello', is_background: false })],
    // It drops the prompt, so the conversation ends with the assistant's message. Claude from 4.6 on refuses that.
    refusedCompacted: { anthropic: 'unsupported_parameter' },
    launch: ({ url, key, model, prompt, resume }) => ({
      args: [...(resume ? ['-c'] : []), '--auth-type', 'openai', '--yolo', prompt],
      env: { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: key, OPENAI_MODEL: model },
    }),
  },
  Cline: {
    from: 'npm',
    name: 'cline',
    version: '3.0.65',
    bin: 'cline',
    tools: [['run_commands', at => ({ commands: [`echo hello-${at}`] })]],
    resumes: false,
    launch: ({ url, key, model, prompt }) => ({
      args: ['-P', 'openai', '-m', model, prompt],
      env: {},
      before: { args: ['auth', '-p', 'openai', '-k', key, '-m', model, '-b', `${url}/v1`] },
    }),
  },
  aider: {
    from: 'pip',
    name: 'aider-chat',
    version: '0.86.2',
    bin: 'aider',
    tools: [],
    launch: ({ url, key, model, prompt, resume }) => ({
      args: [
        ...['--model', `openai/${model}`, '--message', prompt, ...(resume ? ['--restore-chat-history'] : [])],
        ...['--yes-always', '--no-git', '--no-check-update', '--no-show-model-warnings', '--no-analytics'],
      ],
      env: { OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: key },
    }),
  },
}
