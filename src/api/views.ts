/**
 * The types of the account API's answers, inferred from their schemas (schemas.ts). The page imports them. A test checks each answer of the
 * real server.
 *
 * Money is a string in dollars with 9 decimals, times are ISO 8601 in UTC, lists are `{ items, next }`.
 */
import type { View } from './schemas.ts'

export type { Outcome as OutcomeName } from '#contract'

export interface PageView<Item> {
  readonly items: readonly Item[]
  readonly next: string | null
}

export type AboutView = View<'AboutView'>
export type PersonView = View<'PersonView'>
export type AccountView = View<'AccountView'>
export type SessionView = View<'SessionView'>
export type LinkPurposeView = View<'LinkPurposeView'>
export type KeyView = View<'KeyView'>
export type IssuedKeyView = View<'IssuedKeyView'>
export type BudgetView = View<'BudgetView'>
export type EntryView = View<'EntryView'>
export type PriceView = View<'PriceView'>
export type ReceiptView = View<'ReceiptView'>
export type UsageRowView = View<'UsageRowView'>
export type UsageView = View<'UsageView'>
export type ModelView = View<'ModelView'>
export type OperatorModelView = View<'OperatorModelView'>
export type LinkView = View<'LinkView'>
export type IssuedLinkView = View<'IssuedLinkView'>
export type AccountDetailView = View<'AccountDetailView'>
export type CreditView = View<'CreditView'>
export type PlanView = View<'PlanView'>
export type FoundReceiptView = View<'FoundReceiptView'>
export type SummaryView = View<'SummaryView'>
export type ExchangeView = View<'ExchangeView'>
export type PastExchangeView = View<'PastExchangeView'>
export type ShadowView = View<'ShadowView'>
export type ShadowStepView = View<'ShadowStepView'>
export type TouchedView = View<'TouchedView'>
export type TargetHealthView = View<'TargetHealthView'>
export type ProviderView = View<'ProviderView'>
export type AlertView = View<'AlertView'>
export type DeliveryView = View<'DeliveryView'>
export type ProblemView = View<'ProblemView'>
export type ConfigurationView = View<'ConfigurationView'>
export type TokenView = View<'TokenView'>
export type IssuedTokenView = View<'IssuedTokenView'>
