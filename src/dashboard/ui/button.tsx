/** Buttons, and links that look like them. */
import type { ButtonHTMLAttributes, ComponentChildren, PartialAnchorHTMLAttributes, VNode } from 'preact'
import { Icon, type IconName } from './icons.tsx'

export type ButtonVariant = 'primary' | 'secondary' | 'quiet' | 'danger'

interface Look {
  readonly variant?: ButtonVariant | undefined
  readonly icon?: IconName | undefined
  readonly small?: boolean | undefined
  /** Shows only the icon: `children` is read aloud and shown as a title. */
  readonly iconOnly?: boolean | undefined
  readonly children: ComponentChildren
}

type ButtonProps = Look & { readonly busy?: boolean | undefined } & Omit<
    ButtonHTMLAttributes<HTMLButtonElement>,
    'icon' | 'class'
  >

/** A button. While `busy` it ignores clicks and keeps the focus. */
export function Button({ variant, icon, small, iconOnly, busy = false, children, ...rest }: ButtonProps): VNode {
  const stop = (event: Event): void => event.preventDefault()
  return (
    <button
      type="button"
      {...rest}
      {...(busy ? { onClick: stop, 'aria-disabled': 'true', 'aria-busy': 'true' } : {})}
      class={look(variant, small, iconOnly)}
      {...titled(iconOnly, children)}
    >
      {busy ? <span class="spinner" aria-hidden="true" /> : icon && <Icon name={icon} />}
      <span class={iconOnly ? 'hidden' : ''}>{children}</span>
    </button>
  )
}

type LinkProps = Look & { readonly href: string } & Omit<
    PartialAnchorHTMLAttributes<HTMLAnchorElement>,
    'icon' | 'class' | 'href' | 'role'
  >

/** A link that looks like a button. */
export function ButtonLink({ variant, icon, small, iconOnly, children, ...rest }: LinkProps): VNode {
  return (
    <a {...rest} class={look(variant, small, iconOnly)} {...titled(iconOnly, children)}>
      {icon && <Icon name={icon} />}
      <span class={iconOnly ? 'hidden' : ''}>{children}</span>
    </a>
  )
}

function look(variant: ButtonVariant = 'secondary', small = false, iconOnly = false): string {
  return `button button-${variant}${small ? ' button-small' : ''}${iconOnly ? ' button-icon' : ''}`
}

function titled(iconOnly: boolean | undefined, children: ComponentChildren): { title?: string } {
  return iconOnly && typeof children === 'string' ? { title: children } : {}
}
