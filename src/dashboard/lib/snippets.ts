/** Snippets of a first request, to copy and run. */

/** The placeholder for the key when none can be shown. */
export const KEY_PLACE = 'YOUR_KEY'

interface SnippetParts {
  readonly baseUrl: string
  readonly model: string
  readonly key?: string | undefined
}

/** For a terminal, streamed. */
export function curlSnippet({ baseUrl, model, key = KEY_PLACE }: SnippetParts): string {
  const body = { model, stream: true, messages: [{ role: 'user', content: 'Hello!' }] }
  return [
    `curl -N ${inShell(`${baseUrl}/chat/completions`)} \\`,
    `  -H ${inShell(`authorization: Bearer ${key}`)} \\`,
    `  -H 'content-type: application/json' \\`,
    `  -d ${inShell(JSON.stringify(body))}`,
  ].join('\n')
}

/** With the official package for Node.js. */
export function nodeSnippet({ baseUrl, model, key = KEY_PLACE }: SnippetParts): string {
  return `// npm install openai
import OpenAI from 'openai'

const client = new OpenAI({ baseURL: ${JSON.stringify(baseUrl)}, apiKey: ${JSON.stringify(key)} })
const stream = await client.chat.completions.create({
  model: ${JSON.stringify(model)},
  messages: [{ role: 'user', content: 'Hello!' }],
  stream: true,
})
for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta?.content ?? '')`
}

/** With the official package for Python. */
export function pythonSnippet({ baseUrl, model, key = KEY_PLACE }: SnippetParts): string {
  return `# pip install openai
from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(baseUrl)}, api_key=${JSON.stringify(key)})
answer = client.chat.completions.create(
    model=${JSON.stringify(model)},
    messages=[{"role": "user", "content": "Hello!"}],
)
print(answer.choices[0].message.content)`
}

/** Quotes any text as one shell word. */
function inShell(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
