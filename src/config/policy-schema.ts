/** The JSON Schema of a policy file. `policy/policy.ts` and the files beside it check what a schema cannot express. */
import { map, NAME, text } from './schema-parts.ts'
import { POLICY_TELEMETRY_SCHEMA } from './telemetry-section.ts'

const STEP = map(
  'A plugin with its settings.',
  {
    id: {
      type: 'string',
      ...NAME,
      description:
        "The stable name of the step in state, trail, log and metrics; unique in the policy. Default: the plugin's name.",
    },
    use: text('The plugin: the name of a built-in one, ./path/to/plugin.ts beside this file, or npm:package.'),
    with: { type: 'object', description: 'The settings of the plugin. The README of each plugin lists them.' },
    when: text('A condition (CEL). The step is skipped when it is false. Default: always true.', {
      sentence: 'must be a condition such as account.plan == "free"',
    }),
    mode: {
      enum: ['enforce', 'shadow', 'off'],
      description:
        'enforce: the step runs; shadow: the step only records what it would have done; off: the step does not run.',
      default: 'enforce',
    },
    onError: {
      enum: ['refuse', 'skip'],
      description:
        'If the step fails before it calls the next step: refuse refuses the request, skip continues without the step.',
      default: 'refuse',
    },
  },
  {
    required: ['use'],
    unknown: 'with',
    instead: { of: '^(?!null$)[\\w./:@-]+$', write: '"use: VALUE"' },
  },
)

export const POLICY_SCHEMA = map(
  'A policy: steps in the order in which they run.',
  {
    telemetry: POLICY_TELEMETRY_SCHEMA,
    steps: { type: 'array', minItems: 1, description: 'The steps, from first to last.', items: STEP },
  },
  { required: ['steps'], instead: { of: '^null$', write: 'its "steps:"' } },
)
