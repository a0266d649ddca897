/** The input modalities of a target, by its dialect and its model. */
import { expect, test } from 'vitest'
import { modalitiesOf, unsupportedModality } from '../../src/config/modalities.ts'
import type { DialectName } from '../../src/providers/dialects/dialect-names.ts'

test.each<[DialectName, reads: string | undefined, models: readonly string[]]>([
  [
    'openai',
    '',
    [
      'gpt-oss-120b',
      'deepseek-ai/DeepSeek-V3.2',
      'accounts/fireworks/models/qwen3-235b-a22b',
      'accounts/fireworks/models/qwen2p5-72b-instruct',
      'accounts/fireworks/models/glm-4p6',
      'accounts/fireworks/models/llama-v3p1-405b-instruct',
      'meta-llama/Llama-3.3-70B-Instruct',
      'Qwen/Qwen3-Coder-480B-A35B-Instruct',
      'moonshotai/Kimi-K2-Instruct-0905',
      'MiniMaxAI/MiniMax-M2',
      'zai-org/GLM-4.6-FP8',
      'gpt-3.5-turbo',
      'o3-mini',
      'o1-mini-2024-09-12',
      'zai-org/GLM-4-9B-0414',
      'zai.glm-4-5-air',
      'moonshot.kimi-k2-thinking',
      'nvidia/Llama-3_1-Nemotron-Ultra-253B-v1',
      'meta-llama/Meta-Llama-3.1-8B-Instruct',
      'Qwen/Qwen2-57B-A14B-Instruct',
      'Qwen/Qwen2.5-1.5B-Instruct',
      'Qwen/Qwen3-0.6B',
      'deepseek-ai/DeepSeek-R1-Distill-Llama-70B',
      'accounts/fireworks/models/deepseek-v3p1',
      'CohereLabs/c4ai-command-r-plus-08-2024',
      'cohere/command-a',
      'anthropic/claude-2.1',
    ],
  ],
  [
    'openai',
    'image file',
    ['gpt-4o', 'gpt-4o-mini-2024-07-18', 'gpt-4.1-nano', 'gpt-5.1', 'anthropic/claude-sonnet-4.5'],
  ],
  [
    'openai',
    undefined,
    [
      'gpt-4o-audio-preview',
      'gpt-audio',
      'o3',
      'qwen3-vl-235b',
      'qwen2.5-omni-7b',
      'qwen3.5-397b',
      'qwen3-asr-flash',
      'llama3-llava-next-8b',
      'fixie-ai/ultravox-v0_5-llama-3_1-8b',
      'deepseek-ocr',
      'deepseek-vl2',
      'glm-4.5v',
      'glm-4v-plus',
      'meta-llama/llama-4-maverick',
      'meta-llama/Llama-3.2-11B-Vision-Instruct',
      'kimi-k2.5',
      'google/gemini-3-pro',
      'some-model',
      'OpenGVLab/InternVL3_5-GPT-OSS-20B-A4B-Preview',
      'opengvlab/internvl3-78b',
      'zai.glm-4-5v',
      'glm-4-6v-flash',
      'glm-4p5v',
      'glm-4-1v-9b',
      'zai-org/glm-4-voice-9b',
      'zai-org/cogvlm2-llama3-chat-19B',
      'qwen2-vl-7b-instruct',
      'Qwen/QwenVL3',
      'qwen3-5-397b-a17b',
      'accounts/fireworks/models/qwen3p5-397b',
      'qwen3-livetranslate-flash',
      'kimi-k2-5',
      'accounts/fireworks/models/kimi-k2p5',
      'moonshotai/kimi-vl-a3b-thinking',
      'minimax-m3',
      'meta.llama-3_2-11b',
      'accounts/fireworks/models/llama4-scout-instruct-basic',
      'HuggingFaceM4/Idefics3-8B-Llama3',
      'DAMO-NLP-SG/VideoLLaMA3-7B',
      'Efficient-Large-Model/Llama-3-VILA1.5-8B',
      'BAAI/Bunny-Llama-3-8B-V',
      'deepseek-ai/deepseek-v5',
      'deepseek-ai/Janus-Pro-7B',
      'turbo1-mini',
      'microsoft/phi-4-multimodal-instruct',
      'gpt-4o-transcribe',
      'production-gpt-35-turbo',
    ],
  ],
  ['azure', undefined, ['production']],
  ['deepseek', '', ['deepseek-v4-pro']],
  ['groq', '', ['openai/gpt-oss-120b', 'llama-3.3-70b-versatile', 'llama3-70b-8192', 'qwen/qwen3-32b']],
  ['groq', undefined, ['meta-llama/llama-4-scout']],
  ['zai', '', ['glm-4.6', 'glm-4.5-air', 'glm-5']],
  ['zai', undefined, ['glm-4.6v']],
  ['mistral', '', ['mistral-large-2407', 'open-mixtral-8x22b', 'codestral-latest']],
  ['mistral', undefined, ['mistral-large-latest', 'pixtral-12b', 'voxtral-small']],
  ['anthropic', 'image file', ['claude-opus-4-6', 'a-new-one']],
  ['vertex-anthropic', 'image file', ['claude-sonnet-4-5@20250929']],
  ['bedrock-invoke', 'image file', ['us.anthropic.claude-sonnet-4-5-20250929-v1:0']],
  ['gemini', 'image audio file', ['gemini-2.5-flash']],
  ['vertex', 'image audio file', ['gemini-3-pro-preview']],
  ['cohere', '', ['command-a-03-2025', 'command-a-reasoning-08-2025', 'command-r-plus']],
  ['cohere', 'image', ['command-a-vision-07-2025', 'command-a-plus-05-2026', 'command-a2', 'a-new-one']],
  ['ollama', '', ['llama3.1', 'llama3.1:8b', 'llama3:70b', 'gpt-oss:20b', 'qwen3:8b', 'deepseek-r1']],
  ['ollama', 'image', ['llama3.2-vision', 'llava', 'gemma3', 'qwen2.5vl']],
  [
    'bedrock',
    'file',
    [
      'us.meta.llama3-3-70b-instruct-v1:0',
      'meta.llama3-8b-instruct-v1:0',
      'mistral.mistral-large-2407-v1:0',
      'openai.gpt-oss-120b-1:0',
      'cohere.command-r-plus-v1:0',
      'amazon.titan-text-express-v1',
      'deepseek.r1-v1:0',
      'deepseek.v3-v1:0',
      'anthropic.claude-v2:1',
      'anthropic.claude-instant-v1',
    ],
  ],
  ['bedrock', '', ['amazon.titan-text-premier-v1:0', 'us.amazon.nova-micro-v1:0']],
  ['bedrock', 'image file', ['us.amazon.nova-lite-v1:0', 'us.anthropic.claude-opus-5-5']],
  [
    'bedrock',
    'image audio file',
    [
      'us.meta.llama3-2-11b-instruct-v1:0',
      'us.meta.llama4-scout-17b-instruct-v1:0',
      'us.amazon.nova-2-omni-v1:0',
      'a-new-one',
    ],
  ],
])('%s: text and %j', (dialect, reads, models) => {
  const expected = reads === undefined ? undefined : `text ${reads}`.trim()
  const found = models.map(model => [model, modalitiesOf({ dialect }, model, undefined)?.join(' ')])
  expect(found).toEqual(models.map(model => [model, expected]))
})

test('the configuration overrides the table, and a model always reads text', () => {
  expect(modalitiesOf({ dialect: 'openai' }, 'gpt-oss-120b', ['image'])).toEqual(['text', 'image'])
  expect(modalitiesOf({ dialect: 'openai' }, 'some-model', ['text'])).toEqual(['text'])
  expect(modalitiesOf({ dialect: 'openai' }, 'some-model', [])).toEqual(['text'])
})

test('OpenRouter reads documents for each model', () => {
  const base_url = 'https://openrouter.ai/api/v1'
  const profile = 'openrouter'
  const model = 'openai/gpt-oss-120b'
  expect(modalitiesOf({ dialect: 'openai', base_url }, model, undefined)).toEqual(['text', 'file'])
  expect(modalitiesOf({ dialect: 'openai', profile }, model, undefined)).toEqual(['text', 'file'])
  expect(modalitiesOf({ dialect: 'openai', base_url, profile: 'vllm' }, model, undefined)).toEqual(['text'])
  expect(modalitiesOf({ dialect: 'openai', base_url }, 'gpt-5', undefined)).toEqual(['text', 'image', 'file'])
  const other = 'https://notopenrouter.ai/api/v1'
  expect(modalitiesOf({ dialect: 'openai', base_url: other }, model, undefined)).toEqual(['text'])
})

test('media that a dialect does not support', () => {
  expect(unsupportedModality('openai', ['text', 'image', 'audio', 'video', 'file'])).toBeNull()
  expect(unsupportedModality('cohere', ['image'])).toBeNull()
  expect(unsupportedModality('cohere', ['image', 'file'])).toEqual({ modality: 'file', supported: ['text', 'image'] })
})
