/** The faults of the matrix: those of the list, and further ones that need certain formats. */
import { errorAnswer } from '../helpers/answers.ts'
import {
  answerWith,
  body,
  type Call,
  FAULTS,
  type Fault,
  type FaultMode,
  fault,
  halves,
  insideOf,
  spoiled,
  UNREACHABLE,
  type Unreachable,
} from '../helpers/fake-provider.ts'
import { NO_MODEL, TOO_LONG, type Voice } from '../helpers/voices/index.ts'

/** A row of the matrix: a provider that cannot be reached, or one that fails in some way. */
export interface MatrixFault {
  /** Begins with its id, as in the tables. */
  readonly title: string
  readonly open?: () => Promise<Unreachable>
  readonly make?: Fault['make']
  readonly fits: (voice: Voice) => boolean
}

const always = () => true
const isFramed = ({ framing }: Voice) => framing === 'frames'

const errorWith = (status: number, words?: string): Fault['make'] => {
  return (mode, voice) =>
    fault('F20', `${status}`, (call, _mode, { error }) => {
      const { body: said, headers } = error(status, words)
      return errorAnswer(status, said, { ...headers }).run(call)
    }).make(mode, voice)
}

/** An error in place of an answer, with status 200. */
const errorFirst = (title: string, status: number): Fault =>
  fault('F18', title, (call, mode, voice) => {
    const said = mode === 'stream' ? voice.errorEvent(status) : JSON.stringify(insideOf(voice, status))
    return answerWith(call, mode, voice, said)
  })

/**
 * Changes one bit of an event, at this place from the end, or from the beginning if negative. Nine from the end is a letter of
 * the padding, so only the checksum is wrong.
 */
const changedBit = (title: string, at: number): Fault =>
  fault(
    'F15',
    title,
    async (call, mode, voice) => {
      const [, [next]] = halves(call, voice)
      const bytes = Buffer.from(next!.bytes)
      const place = at < 0 ? -at : bytes.length - at
      bytes[place] = bytes[place]! ^ 1
      await spoiled(call, mode, voice, bytes)
    },
    isFramed,
  )

/** The start of a stream before any content: a role, the prompt's tokens, or nothing. */
function prelude(call: Call, voice: Voice): Buffer {
  const said = voice.stream({}, call.request)
  const first = said.findIndex(({ kind }) => kind === 'token')
  return Buffer.concat(said.slice(0, first).map(({ bytes }) => bytes))
}

const MORE: readonly Fault[] = [
  fault('F10', 'ended in the middle of an event, in good HTTP', async (call, mode, voice) => {
    if (mode === 'whole') return answerWith(call, mode, voice, body(call, mode, voice).subarray(0, -8))
    const [before, [next]] = halves(call, voice)
    const cut = next!.bytes.subarray(0, next!.bytes.length - 8)
    await answerWith(call, mode, voice, Buffer.concat([...before.map(({ bytes }) => bytes), cut]))
  }),
  fault('F10', 'no reason for the end', (call, mode, voice) =>
    answerWith(call, mode, voice, body(call, mode, voice, { finish: false })),
  ),
  fault(
    'F10',
    'no word for the end',
    (call, mode, voice) => answerWith(call, mode, voice, body(call, mode, voice, { end: false })),
    ({ ends }) => ends,
  ),
  fault('F12', 'silence before the first token', async (call, mode, voice) => {
    call.head(200, { 'content-type': voice.types[mode] })
    await call.write(mode === 'whole' ? '{' : prelude(call, voice))
    await call.closed
  }),
  changedBit('a frame with a wrong check sum', 9),
  changedBit('a frame whose length is wrong', -3),
  fault('F18', 'an error before the first token', (call, mode, voice) => {
    if (mode === 'whole') return answerWith(call, mode, voice, JSON.stringify(insideOf(voice, 500)))
    return answerWith(call, mode, voice, Buffer.concat([prelude(call, voice), voice.errorEvent(500)]))
  }),
  errorFirst('a rate limit in place of an answer', 429),
  errorFirst('an overload in place of an answer', 529),
  fault('F18', 'an overload after two tokens', (call, mode, voice) =>
    spoiled(call, mode, voice, voice.errorEvent(529)),
  ),
]

/** All of them, in the order of the list. */
export const MATRIX_FAULTS: readonly MatrixFault[] = [
  ...UNREACHABLE.map(({ id, title, open }) => ({ title: `${id} ${title}`, open, fits: always })),
  ...[...FAULTS, ...MORE].map(({ id, title, make, fits = always }) => ({ title: `${id} ${title}`, make, fits })),
  ...[400, 401, 402, 403, 413, 422].map(status => ({
    title: `F20 ${status} with JSON`,
    make: errorWith(status),
    fits: always,
  })),
  { title: 'F20 404 with JSON', make: errorWith(404, NO_MODEL), fits: always },
  { title: 'F20 400 about the context', make: errorWith(400, TOO_LONG), fits: always },
].toSorted((one, other) => one.title.slice(0, 3).localeCompare(other.title.slice(0, 3)))

export const MODES: readonly FaultMode[] = ['whole', 'stream']
