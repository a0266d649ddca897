/**
 * Requests from each client format, and answers in it: the cases of `messages/cases/*.json` and `responses/cases/*.json`.
 * Refusals have their own tests.
 */
import { isDeepStrictEqual } from 'node:util'
import { expect } from 'vitest'
import { type Json, testCases } from '../../../helpers/cases.ts'
import { parseSse } from '../../../helpers/sse.ts'
import { complaintAbout } from './canonical.ts'
import { answerOf, FOLDER, requestOf, streamOf } from './cases.ts'

testCases(FOLDER, 'request.json', given => {
  const { body, dropped } = requestOf(given)
  const complaint = complaintAbout(body)
  return {
    body,
    ...(dropped && dropped.length > 0 ? { dropped } : {}),
    ...(complaint === null ? {} : { complaint }),
  }
})

testCases(FOLDER, 'answer.json', answerOf)

testCases(FOLDER, 'stream.json', given => {
  const { events, done, rest } = parseSse(streamOf(given))
  expect({ done, rest }).toEqual({ done: false, rest: '' })
  const all = events.map(({ event, data }, index) => eventOf(event, JSON.parse(data), index))
  // The member of an event that holds the whole answer, if any.
  const name = given['dialect'] === 'responses' ? 'response' : 'message'
  const head = all.find(event => typeof event[name] === 'object')?.[name] as Json
  return { head, events: all.map(event => withoutHead(event, name, head)) }
})

/** Checks that an event is named after its type. Events of Responses are numbered too. */
function eventOf(name: string, { sequence_number, ...event }: Json, index: number): Json {
  expect(event['type']).toBe(name)
  if (sequence_number !== undefined) expect(sequence_number).toBe(index)
  return event
}

/** The members of the whole message or Response in an event that differ from the first event. */
function withoutHead(all: Json, name: string, head: Json): Json {
  const { [name]: whole, ...event } = all
  if (typeof whole !== 'object') return all
  expect(Object.keys(whole!)).toEqual(Object.keys(head))
  const own = Object.entries(whole!).filter(([member, value]) => !isDeepStrictEqual(value, head[member]))
  return own.length === 0 ? event : { ...event, [name]: Object.fromEntries(own) }
}
