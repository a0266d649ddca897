/** Families of models: maximum output and reasoning, which the built-in price list does not have, and the context. */
import { isModelName } from './listed-model.ts'

interface Family {
  readonly name: RegExp
  /** Tokens. */
  readonly maxOutput: number
  readonly reasoning: boolean
  /** Tokens of prompt and answer together. Omitted if it differs within the family. */
  readonly context?: number
}

const family = (name: RegExp, maxOutput: number, reasoning = false, context?: number): Family => ({
  name,
  maxOutput,
  reasoning,
  ...(context === undefined ? {} : { context }),
})

/** The first match counts. From the model pages of OpenAI, Anthropic, Google, DeepSeek, Mistral, xAI and Amazon. */
const FAMILIES: readonly Family[] = [
  family(/gpt-3\.?5-(turbo-)?(0301|0613|instruct)/, 4096, false, 4096),
  family(/gpt-3\.?5/, 4096, false, 16_385),
  family(/gpt-4(-|$|o-2024-05-13)(?!\.)/, 4096),
  family(/gpt-4\.1/, 32_768, false, 1_047_576),
  family(/gpt-4\.5/, 16_384, false, 128_000),
  family(/gpt-4o|chatgpt-4o|gpt-audio/, 16_384, false, 128_000),
  family(/gpt-(5|5[.-]\d)-chat/, 16_384, false, 128_000),
  family(/gpt-oss/, 32_768, true, 131_072),
  family(/gpt-chat-latest/, 16_384),
  family(/gpt-\d|codex-mini/, 128_000, true),
  family(/(^|[/.])o1-(mini|preview)/, 32_768, true, 128_000),
  family(/(^|[/.])o\d(-|$)/, 100_000, true, 200_000),
  family(/claude-(2|v\d|instant)/, 4096),
  family(/claude-3-(haiku|opus|sonnet)/, 4096, false, 200_000),
  family(/claude-3[.-]5/, 8192, false, 200_000),
  family(/claude-(3[.-]7|sonnet-3[.-]7)/, 64_000, true, 200_000),
  family(/claude-(opus-4(-[01]|-2025|@|$)|4-opus)/, 32_000, true, 200_000),
  family(/claude-/, 64_000, true, 200_000),
  family(/gemini-(1|pro|flash)/, 8192),
  family(/gemini-2\.0/, 8192, false, 1_048_576),
  family(/gemini-(2\.5|[3-9])(?!.*(image|live|tts|computer))/, 65_536, true, 1_048_576),
  family(/gemini-/, 65_536, true),
  family(/deepseek-chat|deepseek[-.]v3/, 8192, false, 131_072),
  family(/deepseek.*(r1|reasoner)/, 32_768, true, 131_072),
  family(/deepseek.*v4/, 32_768, true),
  family(/magistral/, 32_768, true),
  family(/grok-(3-mini|4|[5-9]|code)/, 32_768, true),
  family(
    /qwq|qwen3-.*thinking|-thinking|-reasoning|(^|[/.])kimi-k2-thinking|glm-(4\.[5-9]|[5-9])|minimax-m[1-9]/i,
    32_768,
    true,
  ),
  family(/nova-(lite|micro|pro)/, 5120),
  family(/command-(a|r7b)/, 8192),
  family(/command-/, 4096),
  family(/llama-?3[.-][13]/, 8192, false, 131_072),
]

/** The family of a model, by its name; null if the table has none. */
export function familyOf(model: string): Pick<Family, 'maxOutput' | 'reasoning' | 'context'> | null {
  // Some of the expressions take quadratic time.
  if (!isModelName(model)) return null
  const name = model.toLowerCase()
  return FAMILIES.find(each => each.name.test(name)) ?? null
}
