/** Form fields: a label, a hint and an error that belong to the control, also for screen readers. */
import type {
  ComponentChildren,
  PartialInputHTMLAttributes,
  PartialSelectHTMLAttributes,
  TextareaHTMLAttributes,
  VNode,
} from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import type { FormState } from '../lib/use-form.ts'
import { Button } from './button.tsx'
import { ErrorNote } from './state.tsx'

interface Labelling {
  readonly label: string
  readonly hint?: ComponentChildren
  readonly error?: string | undefined
}

interface ControlIds {
  readonly id: string
  readonly 'aria-describedby'?: string
  readonly 'aria-invalid'?: 'true'
}

interface FieldProps extends Labelling {
  readonly optional?: boolean | undefined
  /** Renders the control with the ids that connect it to its label, hint and error. */
  readonly control: (ids: ControlIds) => VNode
}

/** The frame of one control. */
export function Field({ label, hint, error, optional, control }: FieldProps): VNode {
  const id = useId()
  const ids: ControlIds = { id, ...describedBy(id, hint, error), ...(error && { 'aria-invalid': 'true' as const }) }
  return (
    <div class="field">
      <label class="field-label" for={id}>
        {label}
        {optional && <span class="field-optional"> (optional)</span>}
      </label>
      {control(ids)}
      <Words id={id} hint={hint} error={error} />
    </div>
  )
}

function describedBy(id: string, hint: ComponentChildren, error: string | undefined) {
  const described = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return described && { 'aria-describedby': described }
}

/** The error and the hint of a control. */
function Words({ id, hint, error }: Omit<Labelling, 'label'> & { readonly id: string }): VNode {
  return (
    <>
      {error && (
        <p class="field-error" id={`${id}-error`}>
          {error}
        </p>
      )}
      {hint && (
        <p class="small muted" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </>
  )
}

/** The frame of several controls. */
function Group({ label, hint, error, children }: Labelling & { readonly children: ComponentChildren }): VNode {
  const id = useId()
  return (
    <fieldset class="field" {...describedBy(id, hint, error)}>
      <legend class="field-label">{label}</legend>
      {children}
      <Words id={id} hint={hint} error={error} />
    </fieldset>
  )
}

type InputRest = Omit<
  PartialInputHTMLAttributes<HTMLInputElement>,
  'label' | 'value' | 'id' | 'class' | 'role' | 'type'
>

interface TextProps extends Labelling, InputRest {
  readonly type?: 'text' | 'email' | 'search' | 'date' | 'number' | 'url' | undefined
  /** The id of a `<datalist>`. */
  readonly list?: string | undefined
  /** Classes besides its own: `mono`. */
  readonly class?: string | undefined
  readonly value: string
  readonly onValue: (value: string) => void
  readonly optional?: boolean | undefined
  /** An amount of dollars. */
  readonly dollars?: boolean | undefined
}

/** One line of text. */
export function TextField({
  label,
  hint,
  error,
  optional,
  value,
  onValue,
  dollars,
  type = 'text',
  class: extra = '',
  ...rest
}: TextProps): VNode {
  const control = (ids: ControlIds): VNode => {
    const input = (
      <input
        class={`input ${extra}`}
        autocomplete="off"
        {...(dollars && { inputMode: 'decimal' as const })}
        {...rest}
        {...ids}
        {...kind(type)}
        value={value}
        onInput={event => onValue(event.currentTarget.value)}
      />
    )
    if (!dollars) return input
    return (
      <div class="input-group">
        <span class="input-before" aria-hidden="true">
          $
        </span>
        {input}
      </div>
    )
  }
  return <Field label={label} hint={hint} error={error} optional={optional} control={control} />
}

interface AreaProps
  extends Labelling,
    Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'label' | 'value' | 'id' | 'class' | 'role'> {
  readonly value: string
  readonly onValue: (value: string) => void
  readonly optional?: boolean | undefined
}

/** Several lines of text. */
export function TextArea({ label, hint, error, optional, value, onValue, ...rest }: AreaProps): VNode {
  const control = (ids: ControlIds): VNode => (
    <textarea
      class="input"
      rows={3}
      {...rest}
      {...ids}
      value={value}
      onInput={event => onValue(event.currentTarget.value)}
    />
  )
  return <Field label={label} hint={hint} error={error} optional={optional} control={control} />
}

interface PasswordProps extends Labelling {
  readonly value: string
  readonly onValue: (value: string) => void
  readonly name: string
  readonly autoComplete: 'current-password' | 'new-password'
}

/** A password field that can show its text. */
export function PasswordField({ label, hint, error, value, onValue, name, autoComplete }: PasswordProps): VNode {
  const [shown, setShown] = useState(false)
  const control = (ids: ControlIds): VNode => (
    <div class="input-group">
      <input
        class="input"
        {...kind(shown ? 'text' : 'password')}
        name={name}
        autocomplete={autoComplete}
        autocapitalize="off"
        spellcheck={false}
        required
        {...ids}
        value={value}
        onInput={event => onValue(event.currentTarget.value)}
      />
      <button type="button" class="button button-small button-quiet input-button" onClick={() => setShown(!shown)}>
        {shown ? 'Hide' : 'Show'}
        <span class="hidden"> the {label.toLowerCase()}</span>
      </button>
    </div>
  )
  return <Field label={label} hint={hint} error={error} control={control} />
}

interface SelectProps
  extends Labelling,
    Omit<PartialSelectHTMLAttributes<HTMLSelectElement>, 'label' | 'value' | 'id' | 'class' | 'role'> {
  readonly value: string
  readonly onValue: (value: string) => void
  readonly options: readonly { readonly value: string; readonly label: string }[]
}

/** A choice of one, as a select. */
export function SelectField({ label, hint, error, value, onValue, options, ...rest }: SelectProps): VNode {
  const control = (ids: ControlIds): VNode => (
    <select
      class="input select"
      {...rest}
      {...ids}
      value={value}
      onChange={event => onValue(event.currentTarget.value)}
    >
      {options.map(option => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  )
  return <Field label={label} hint={hint} error={error} control={control} />
}

interface GroupProps extends Labelling {
  readonly values: readonly string[]
  readonly onValues: (values: readonly string[]) => void
  readonly options: readonly { readonly value: string; readonly label: string; readonly hint?: string }[]
}

/** A choice of any, as checkboxes. */
export function CheckboxGroup({ values, onValues, options, ...labels }: GroupProps): VNode {
  const turn = (value: string, on: boolean): void =>
    onValues(options.map(option => option.value).filter(each => (each === value ? on : values.includes(each))))
  return (
    <Group {...labels}>
      <div class="checks-list">
        {options.map(option => (
          <Checkbox
            key={option.value}
            label={option.label}
            hint={option.hint}
            checked={values.includes(option.value)}
            onChecked={on => turn(option.value, on)}
          />
        ))}
      </div>
    </Group>
  )
}

interface CheckboxProps {
  readonly label: ComponentChildren
  readonly hint?: ComponentChildren
  readonly checked: boolean
  readonly onChecked: (checked: boolean) => void
}

/** A checkbox. */
export function Checkbox({ label, hint, checked, onChecked }: CheckboxProps): VNode {
  return (
    <label class="check">
      <input type="checkbox" checked={checked} onChange={event => onChecked(event.currentTarget.checked)} />
      <span>
        {label}
        {hint && <div class="small muted">{hint}</div>}
      </span>
    </label>
  )
}

interface ChoiceProps extends Labelling {
  readonly value: string
  readonly onValue: (value: string) => void
  readonly options: readonly { readonly value: string; readonly label: string }[]
}

/** A choice of one, as visible buttons. */
export function Choice({ value, onValue, options, ...labels }: ChoiceProps): VNode {
  const name = useId()
  return (
    <Group {...labels}>
      <div class="row">
        {options.map(option => (
          <label key={option.value} class="choice-item">
            <input
              type="radio"
              name={name}
              value={option.value}
              checked={option.value === value}
              onChange={() => onValue(option.value)}
            />
            <span>{option.label}</span>
          </label>
        ))}
      </div>
    </Group>
  )
}

interface FormProps {
  readonly form: FormState
  /** The label of the submit button. */
  readonly submit: string
  readonly danger?: boolean | undefined
  /** Shown while there are no errors. */
  readonly note?: ComponentChildren
  readonly onCancel?: (() => void) | undefined
  readonly wide?: boolean | undefined
  readonly children?: ComponentChildren
}

/** A form with its buttons. Browser validation is off: errors appear at the fields, and the first one gets the focus. */
export function Form({ form, submit, danger, note, onCancel, wide, children }: FormProps): VNode {
  const { busy, error } = form
  const element = useRef<HTMLFormElement>(null)
  const sent = useRef(false)
  useEffect(() => {
    if (!sent.current || busy) return
    const wrong = element.current?.querySelector<HTMLElement>('[aria-invalid="true"]')
    if (wrong) {
      sent.current = false
      wrong.focus()
    }
  })
  const submitted = (event: Event): void => {
    event.preventDefault()
    if (busy) return
    sent.current = true
    void form.submit()
  }
  return (
    <form ref={element} class="form" noValidate onSubmit={submitted}>
      {(error || note) && <div role="alert">{error ? <ErrorNote error={error} /> : note}</div>}
      {children}
      <div class={wide ? 'row form-actions form-actions-wide' : 'row form-actions'}>
        {onCancel && (
          <Button variant="quiet" onClick={onCancel}>
            Cancel
          </Button>
        )}
        <Button type="submit" variant={danger ? 'danger' : 'primary'} busy={busy}>
          {submit}
        </Button>
      </div>
    </form>
  )
}

/** The JSX types require a literal type, but here the type varies. */
function kind(type: string): { readonly type: 'password' } {
  return { type: type as 'password' }
}
