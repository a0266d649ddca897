/** The choice of the colour scheme. */
import type { VNode } from 'preact'
import { type ThemeChoice, useTheme } from '../lib/theme.ts'
import { Segments } from './tabs.tsx'

/** Light, dark, or the system's. */
export function ThemeSwitch({ iconOnly = false }: { readonly iconOnly?: boolean }): VNode {
  const { choice, choose } = useTheme()
  return (
    <div class="theme-switch">
      <Segments
        label="Theme"
        iconOnly={iconOnly}
        value={choice}
        onValue={value => choose(value as ThemeChoice)}
        options={[
          { value: 'auto', label: 'Auto', icon: 'screen' },
          { value: 'light', label: 'Light', icon: 'sun' },
          { value: 'dark', label: 'Dark', icon: 'moon' },
        ]}
      />
    </div>
  )
}
