/** One turn of the playground: the question, its answer so far, and its costs. */
import type { VNode } from 'preact'
import { compact, count, duration } from '../lib/format.ts'
import { type Answer, adviceFor, finishOf, isOpen, type Turn } from '../lib/talk.ts'
import { Button, Copy, Money, Note } from '../ui/index.ts'
import { Markdown } from '../ui/markdown.tsx'

interface TurnProps {
  readonly turn: Turn
  /** Sends the question again; only for the last turn. */
  readonly again?: (() => void) | undefined
}

export function TurnView({ turn: { question, answer }, again }: TurnProps): VNode {
  return (
    <li class="stack">
      <div class="turn turn-user">
        <p class="hidden">You</p>
        <div class="turn-text">{question}</div>
      </div>
      <div class="turn">
        <p class="label">{answer.model}</p>
        <Thoughts answer={answer} />
        {answer.text !== '' && <Markdown text={answer.text} />}
        {isOpen(answer) && answer.text === '' && <Waiting answer={answer} />}
        <Remark answer={answer} />
        {!isOpen(answer) && (
          <div class="row">
            {answer.text !== '' && <Copy text={answer.text} label="Copy the answer" iconOnly variant="quiet" />}
            {again && (
              <Button small variant="quiet" icon="reload" onClick={again}>
                Ask again
              </Button>
            )}
          </div>
        )}
        <Facts answer={answer} />
      </div>
    </li>
  )
}

function Thoughts({ answer: { thoughts, text } }: { readonly answer: Answer }): VNode | null {
  if (thoughts === '') return null
  return (
    <details class="turn-thought" open={text === ''}>
      <summary>Reasoning</summary>
      <div class="turn-text">{thoughts}</div>
    </details>
  )
}

function Waiting({ answer }: { readonly answer: Answer }): VNode {
  return (
    <p class="line muted">
      <span class="spinner" aria-hidden="true" />
      {answer.thoughts === '' ? 'Waiting for the first token' : 'Reasoning'}
    </p>
  )
}

/** The problem of an answer, and advice. */
function Remark({ answer }: { readonly answer: Answer }): VNode | null {
  const { state, error, text, thoughts, finish, cap, requestId } = answer
  if (error !== null) {
    const advice = adviceFor(error.code)
    return (
      <Note tone="bad" title={text === '' ? 'Request failed' : 'The answer is incomplete'}>
        <p>{error.message}</p>
        {advice !== null && <p>{advice}</p>}
        {requestId !== null && <p class="small muted">Request {requestId}</p>}
      </Note>
    )
  }
  if (state === 'stopped') {
    return (
      <Note tone="info" title="You stopped the answer">
        {text !== '' ? 'The answer is incomplete.' : thoughts === '' ? 'No content was received.' : STILL_REASONING}
      </Note>
    )
  }
  const words = finishOf(finish, cap)
  if (words !== null)
    return (
      <Note tone="warn" title="The answer is incomplete">
        {words}
      </Note>
    )
  if (state === 'done' && text === '') return <Note tone="warn" title="The answer is empty" />
  return null
}

const STILL_REASONING =
  'The model was still reasoning. The provider may continue for a while, and its usage is charged.'

/** Tokens, times and price. */
function Facts({ answer }: { readonly answer: Answer }): VNode | null {
  const { state, firstMs, totalMs, receipt, account, settling } = answer
  if (state === 'waiting' || (firstMs === null && receipt === null)) return null
  return (
    <p class="row small muted">
      <Tokens answer={answer} />
      {firstMs !== null && <span>first token after {duration(firstMs)}</span>}
      {totalMs !== null && <span>{duration(totalMs)} in all</span>}
      {receipt !== null && receipt.charged !== null && (
        <>
          <span>
            cost <Money value={receipt.charged} exact />
          </span>
          <a href={`/receipts/${encodeURIComponent(receipt.id)}`}>Receipt</a>
        </>
      )}
      {settling && <span>waiting for the charge</span>}
      {account !== null && (
        <span>
          <Money value={account.available} exact /> left
        </span>
      )}
    </p>
  )
}

function Tokens({ answer }: { readonly answer: Answer }): VNode | null {
  const { receipt, pieces } = answer
  const prompt = receipt?.prompt_tokens ?? answer.promptTokens
  const completion = receipt?.completion_tokens ?? answer.completionTokens
  if (prompt === null || completion === null) return pieces === 0 ? null : <span>about {count(pieces)} tokens</span>
  return (
    <span title={`${count(prompt)} in the prompt, ${count(completion)} in the answer`}>
      {compact(prompt)} + {compact(completion)} tokens
    </span>
  )
}
