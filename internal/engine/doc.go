// Package engine is what Lockers of all kinds are made of: do I hold the lock, how often, until
// when?
//
// A [Core] is the half of a Locker that does not depend on how a call comes to its lock. It checks
// what a call asks for, gives the call a ticket, and keeps the Holds of the Locker: re-entry,
// renewals, release and loss. The other half, how a call waits, is the Locker's.
//
// A [Hold] is one ticket's part in an ownership: usually the whole of it; with [WithOwner] each
// process has a Hold of its own. A Hold is what the server knows. A [Turn] is one call's use of it;
// a Hold has one Turn after another, usually just one. Every successful call has a [Lease] on a
// Turn. Nested calls add Leases to the same Turn, which ends with the last of them. Then the Hold
// passes to its next Turn ([Core.Pass]) or is given back. Package internal/rules says until when a
// Hold can be trusted, when it may pass, and what each answer means for it.
//
// The types that users meet are here, too, because the Core takes and gives them: options, errors,
// events, states. The packages of the Lockers pass them on. docs/design.md in the repository tells
// the whole protocol in order.
//
// # Owners of several processes
//
// An owner that is named ([WithOwner]) may hold a lock in several processes at once. The record
// then has one field for each process's Hold. Each field has its own deadline, and the record ends
// with the latest of them. All these Holds are one ownership with one fencing token.
//
//   - A Hold is renewed by its own process only. So a process that dies takes nothing from the
//     others. Nor does it keep anything beyond its own lease, whatever the others renew meanwhile.
//   - A release takes out its own field and those that are overdue. If a live field is left, the
//     record's end moves back to that field's deadline. If that is more than 100 ms sooner, the
//     first in line is told. So if the process of that field is dead, the lock is free when that
//     process's lease is over.
//   - Nothing tells a Hold how many others there are; Inspect does.
package engine
