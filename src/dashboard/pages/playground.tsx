/** The playground: a streamed conversation with a model, with the cost of each answer. */
import type { VNode } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { ModelView, PageView } from '../../api/views.ts'
import { exactMoney } from '../lib/format.ts'
import { setQuery, usePlace } from '../lib/router.tsx'
import { useSession } from '../lib/session.tsx'
import type { Settings } from '../lib/talk.ts'
import { useMinWidth } from '../lib/use-min-width.ts'
import { useResource } from '../lib/use-resource.ts'
import { type Talk, useTalk } from '../lib/use-talk.ts'
import { Button, Card, Empty, Fold, Loaded, Page, SelectField, TextArea, TextField } from '../ui/index.ts'
import '../styles/playground.css'
import { TurnView } from './playground-turn.tsx'

export default function PlaygroundPage(): VNode {
  const models = useResource<PageView<ModelView>>('models')
  return (
    <Page
      title="Playground"
      lead="Try a model with your credit. Requests use the same policies as your programs, and each has a receipt."
    >
      <Loaded resource={models} title="Failed to load the models" lines={8}>
        {({ items }) => (items.length === 0 ? <NoModels /> : <Playground models={items} />)}
      </Loaded>
    </Page>
  )
}

function Playground({ models }: { readonly models: readonly ModelView[] }): VNode {
  const { query } = usePlace()
  const { refresh } = useSession()
  const wanted = query.get('model')
  const model = models.find(({ id, aliases }) => id === wanted || aliases.includes(wanted ?? '')) ?? models[0]!
  const [draft, setDraft] = useState<Draft>(NO_DRAFT)
  const [spoken, setSpoken] = useState<readonly string[]>([])
  const talk = useTalk(text => setSpoken(before => [...before.slice(-30), text]), refresh)
  const read = readDraft(draft, model)
  const settings = 'settings' in read ? read.settings : null
  return (
    <div class="playground">
      <Conversation talk={talk} settings={settings} spoken={spoken} />
      <SettingsCard
        models={models}
        model={model}
        draft={draft}
        onDraft={setDraft}
        problems={'problems' in read ? read.problems : {}}
      />
    </div>
  )
}

interface ConversationProps {
  readonly talk: Talk
  /** Null: the fields have errors. */
  readonly settings: Settings | null
  readonly spoken: readonly string[]
}

function Conversation({ talk, settings, spoken }: ConversationProps): VNode {
  const { turns, busy, clear } = talk
  useFollow(turns)
  const title = useId()
  return (
    <section class="card playground-talk" aria-labelledby={title}>
      <header class="card-head">
        <h2 id={title} class="grow">
          Conversation
        </h2>
        <Button small icon="trash" disabled={turns.length === 0} onClick={clear}>
          New chat
        </Button>
      </header>
      <div class="card-body">
        {turns.length === 0 ? (
          <Starters onChoose={question => settings && talk.send(question, settings)} disabled={settings === null} />
        ) : (
          <ol class="stack-loose turns">
            {turns.map((turn, index) => (
              <TurnView
                key={turn.id}
                turn={turn}
                {...(index === turns.length - 1 && !busy && settings ? { again: () => talk.again(settings) } : {})}
              />
            ))}
          </ol>
        )}
        {/* By sentence: a screen reader would read every token as a word. */}
        <div class="hidden" role="log" aria-live="polite" aria-label="The answer as it comes">
          {spoken.map((text, index) => (
            <p key={`${index} ${text}`}>{text}</p>
          ))}
        </div>
        <Composer talk={talk} settings={settings} />
      </div>
    </section>
  )
}

const STARTERS = [
  'What can you help me with?',
  'Explain in three sentences why prepaid credit needs a hold.',
  'Write a haiku about a gate that lets only the right ones in.',
]

function Starters({ onChoose, disabled }: { onChoose: (question: string) => void; disabled: boolean }): VNode {
  return (
    <div class="playground-empty">
      <Empty
        icon="playground"
        title="Ask something"
        action={STARTERS.map(question => (
          <Button key={question} small disabled={disabled} onClick={() => onChoose(question)}>
            {question}
          </Button>
        ))}
      >
        Write a message, or start with an example.
      </Empty>
    </div>
  )
}

function Composer({ talk, settings }: Pick<ConversationProps, 'talk' | 'settings'>): VNode {
  const [question, setQuestion] = useState('')
  const area = useRef<HTMLDivElement>(null)
  // The send and stop buttons replace each other; the keyboard's focus stays in the conversation.
  const toField = (): void => area.current?.querySelector('textarea')?.focus()
  const send = (event?: Event): void => {
    event?.preventDefault()
    if (question.trim() === '' || settings === null || talk.busy) return
    talk.send(question, settings)
    setQuestion('')
    toField()
  }
  const stop = (): void => {
    talk.stop()
    toField()
  }
  const keyed = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) send(event)
  }
  return (
    <div ref={area}>
      <form class="composer" onSubmit={send}>
        <TextArea
          label="Your message"
          rows={2}
          value={question}
          onValue={setQuestion}
          onKeyDown={keyed}
          placeholder="Ask something"
        />
        <div class="row form-actions">
          <span class="small muted grow">
            {settings === null ? 'Correct the settings first.' : 'Enter sends. Shift+Enter adds a line.'}
          </span>
          {talk.busy ? (
            <Button icon="stop" onClick={stop}>
              Stop
            </Button>
          ) : (
            <Button type="submit" variant="primary" icon="send" disabled={question.trim() === '' || settings === null}>
              Send
            </Button>
          )}
        </div>
      </form>
    </div>
  )
}

/** The fields as typed. */
interface Draft {
  readonly system: string
  readonly longest: string
  readonly temperature: string
  readonly effort: string
}

type Problems = Partial<Record<keyof Draft, string>>

const NO_DRAFT: Draft = { system: '', longest: '', temperature: '', effort: '' }

interface SettingsProps {
  readonly models: readonly ModelView[]
  readonly model: ModelView
  readonly draft: Draft
  readonly onDraft: (draft: Draft) => void
  readonly problems: Problems
}

/** The settings beside the conversation; on narrow screens below it and folded. */
function SettingsCard(props: SettingsProps): VNode {
  const isWide = useMinWidth(1100)
  if (isWide)
    return (
      <Card title="Settings">
        <SettingsFields {...props} />
      </Card>
    )
  return (
    <Card>
      <Fold title={`Model and settings: ${props.model.id}`}>
        <SettingsFields {...props} />
      </Fold>
    </Card>
  )
}

function SettingsFields({ models, model, draft, onDraft, problems }: SettingsProps): VNode {
  const set = (name: keyof Draft) => (value: string) => onDraft({ ...draft, [name]: value })
  return (
    <div class="stack">
      <SelectField
        label="Model"
        value={model.id}
        onValue={id => setQuery({ model: id })}
        options={models.map(each => ({ value: each.id, label: each.id }))}
        hint={priceOf(model)}
      />
      <TextArea
        label="System prompt"
        optional
        rows={4}
        value={draft.system}
        onValue={set('system')}
        placeholder="You are a helpful assistant."
      />
      <TextField
        label="Max output tokens"
        optional
        inputMode="numeric"
        value={draft.longest}
        onValue={set('longest')}
        error={problems.longest}
        hint={`In tokens; at most ${model.max_output.toLocaleString('en')}. A higher limit needs a larger hold.`}
      />
      <TextField
        label="Temperature"
        optional
        inputMode="decimal"
        value={draft.temperature}
        onValue={set('temperature')}
        error={problems.temperature}
        hint="0 is the most predictable, 2 the most varied."
      />
      {model.reasoning && (
        <SelectField
          label="Reasoning"
          value={draft.effort}
          onValue={set('effort')}
          options={EFFORTS}
          hint={`Reasoning tokens are output tokens${hasOwnReasoning(model) ? ' with their own price' : ' at the same price'}.`}
        />
      )}
    </div>
  )
}

const EFFORTS = [
  { value: '', label: 'Model default' },
  ...['minimal', 'low', 'medium', 'high'].map(value => ({ value, label: value[0]!.toUpperCase() + value.slice(1) })),
]

function priceOf({ price }: ModelView): string {
  if (price === null) return 'This model is free.'
  const request = /[1-9]/.test(price.request) ? `, and ${exactMoney(price.request)} a request` : ''
  return `${exactMoney(price.input)} for 1M tokens in, ${exactMoney(price.output)} for 1M tokens out${request}.`
}

const hasOwnReasoning = ({ price }: ModelView): boolean =>
  price?.rules?.some(({ unit }) => unit === 'reasoning') ?? false

/** The settings of a draft, or its errors. */
function readDraft(draft: Draft, model: ModelView): { readonly settings: Settings } | { readonly problems: Problems } {
  const problems: Problems = {}
  const longest = draft.longest.trim().replaceAll(',', '')
  if (longest !== '' && !(/^[1-9]\d{0,8}$/.test(longest) && Number(longest) <= model.max_output)) {
    problems.longest = `A whole number from 1 to ${model.max_output.toLocaleString('en')}, or nothing.`
  }
  const temperature = draft.temperature.trim().replace(',', '.')
  if (temperature !== '' && !(/^\d(\.\d+)?$/.test(temperature) && Number(temperature) <= 2)) {
    problems.temperature = 'A number from 0 to 2, or nothing.'
  }
  if (Object.keys(problems).length > 0) return { problems }
  return {
    settings: {
      model: model.id,
      free: model.price === null,
      system: draft.system,
      longest: longest === '' ? undefined : Number(longest),
      temperature: temperature === '' ? undefined : Number(temperature),
      effort: model.reasoning && draft.effort !== '' ? draft.effort : undefined,
    },
  }
}

function NoModels(): VNode {
  return (
    <Card>
      <Empty icon="models" title="No models yet">
        An operator of this gateway adds models to its configuration.
      </Empty>
    </Card>
  )
}

/** Keeps the end of a growing conversation in view, unless the person has scrolled away. */
function useFollow(grows: unknown): void {
  const atEnd = useRef(true)
  useEffect(() => {
    const moved = (): void => {
      const { scrollHeight } = document.documentElement
      atEnd.current = scrollHeight - innerHeight - scrollY < 80
    }
    addEventListener('scroll', moved, { passive: true })
    return () => removeEventListener('scroll', moved)
  }, [])
  const first = useRef(true)
  useLayoutEffect(() => {
    if (!first.current && atEnd.current) scrollTo(0, document.documentElement.scrollHeight)
    first.current = false
  }, [grows])
}
