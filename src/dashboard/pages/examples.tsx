/** A first request, ready to run: for a terminal, Node.js and Python. */
import type { VNode } from 'preact'
import type { ModelView, PageView } from '../../api/views.ts'
import { useSession } from '../lib/session.tsx'
import { curlSnippet, nodeSnippet, pythonSnippet } from '../lib/snippets.ts'
import { useResource } from '../lib/use-resource.ts'
import { ErrorBox, Loading, Snippet, Tabs } from '../ui/index.ts'

interface ExamplesProps {
  readonly model: string
  /** The secret of a key; without it a placeholder is shown. */
  readonly secret?: string | undefined
  readonly onCopied?: (() => void) | undefined
}

/** The same request in three languages. */
export function Examples({ model, secret, onCopied }: ExamplesProps): VNode {
  const { about } = useSession()
  const parts = { baseUrl: about.base_url, model, key: secret }
  const tab = (id: string, title: string, what: string, write: typeof curlSnippet) => ({
    id,
    title,
    content: () => <Snippet text={write(parts)} label={what} onCopied={onCopied} />,
  })
  return (
    <Tabs
      label="Language"
      tabs={[
        tab('curl', 'curl', 'curl command', curlSnippet),
        tab('node', 'Node.js', 'Node.js program', nodeSnippet),
        tab('python', 'Python', 'Python program', pythonSnippet),
      ]}
    />
  )
}

/** Examples with the gateway's first model. */
export function ExamplesOfModels(): VNode {
  const models = useResource<PageView<ModelView>>('models')
  if (models.error) return <ErrorBox error={models.error} retry={models.reload} title="Failed to load the models" />
  if (models.data === undefined) return <Loading lines={4} />
  const model = models.data.items[0]?.id
  if (model === undefined) return <p>This gateway has no models yet. Its operator adds them to its configuration.</p>
  return <Examples model={model} />
}
