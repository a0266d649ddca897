/** A form: the values of its fields, their errors, and its request. */
import { useState } from 'preact/hooks'
import type { ApiError } from './api.ts'
import { useAction } from './use-resource.ts'

interface FormOptions<Values> {
  /** The values by field. A field has the name of the API's parameter, whose errors it shows. */
  readonly initial: Values | (() => Values)
  /** Errors found before sending; undefined or an empty text: the field is valid. */
  readonly check?: ((values: Values) => { readonly [Name in keyof Values]?: string | undefined }) | undefined
  readonly send: (values: Values) => Promise<unknown>
}

/** The props of `<Form>`. */
export interface FormState {
  readonly busy: boolean
  /** The API's error, if no field shows it. */
  readonly error: ApiError | undefined
  /** Sends the form unless a field is invalid; resolves to whether it succeeded. */
  readonly submit: () => Promise<boolean>
}

interface FieldState<Value> {
  readonly value: Value
  readonly onValue: (value: Value) => void
  readonly error: string | undefined
}

interface Form<Values> extends FormState {
  readonly values: Values
  readonly set: (change: Partial<Values>) => void
  /** `<TextField label="Name" {...form.field('name')} />` */
  readonly field: <Name extends keyof Values & string>(name: Name) => FieldState<Values[Name]>
}

/** The state of a form. Its fields show errors from the first attempt to send it until it is sent. */
export function useForm<Values extends object>({ initial, check, send }: FormOptions<Values>): Form<Values> {
  const [values, setValues] = useState(initial)
  const [tried, setTried] = useState(false)
  const action = useAction(send)
  const wrong = check?.(values) ?? {}
  const set = (change: Partial<Values>): void => setValues(before => ({ ...before, ...change }))
  const names = Object.keys(values)
  return {
    values,
    set,
    busy: action.busy,
    error: names.some(name => errorAt(action.error, name)) ? undefined : action.error,
    field: name => ({
      value: values[name],
      onValue: value => set({ [name]: value } as unknown as Partial<Values>),
      error: (tried && wrong[name as keyof typeof wrong]) || errorAt(action.error, name),
    }),
    submit: async () => {
      setTried(true)
      action.clear()
      if (Object.values(wrong).some(Boolean) || !(await action.run(values))) return false
      setTried(false)
      return true
    },
  }
}

/** The fields that are filled in, with their texts trimmed. */
export function filled(values: Readonly<Record<string, string>>): Record<string, string> {
  const trimmed = Object.entries(values).map(([name, value]) => [name, value.trim()] as const)
  return Object.fromEntries(trimmed.filter(([, value]) => value !== ''))
}

function errorAt(error: ApiError | undefined, name: string): string | undefined {
  const param = error?.param ?? ''
  return param === name || param.startsWith(`${name}.`) || param.startsWith(`${name}[`) ? error?.message : undefined
}
