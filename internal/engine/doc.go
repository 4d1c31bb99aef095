// Package engine is what Lockers of both kinds are made of: do I hold it, how often, until when?
//
// A [Core] is the half of a Locker that does not depend on how a call comes to its lock. It checks
// what a call asks for, gives it a ticket, and keeps the Holds of the Locker: who may re-enter one,
// its renewals, its release and its loss. The other half, how a call waits, is the Locker's.
//
// A [Hold] is one ownership that the server granted to one ticket. Every successful call has a
// [Lease] on it; nested calls add Leases to the same Hold, which ends with the last of them. Until
// when a Hold can be trusted, and what each answer means for it, is said by internal/rules.
//
// What users say and are told is here, too, for the Core takes it and gives it: options, errors,
// events, states. Packages fairlock and reentrant pass it on. docs/design.md in the repository
// tells the whole protocol in order.
//
// # Owners of several processes
//
// An owner that is named ([WithOwner]) may hold a lock in several processes at once. The record
// then has one field for each process's Hold with a deadline of its own, and ends with the latest
// of them; the ownership is one, and so is its token.
//
//   - A Hold is renewed by its own process only. So a process that dies takes nothing from the
//     others and keeps nothing for itself beyond its own lease, whatever the others renew
//     meanwhile.
//   - A release takes out its own field and those that are overdue. If a live one is left, the
//     record's end moves back to its deadline: should that process be dead, the lock is free when
//     its lease is over, and not when the survivor's would have been. Those who wait are told that.
//   - Nothing tells a Hold how many others there are; Inspect does.
package engine
