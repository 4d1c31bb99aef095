package main

import (
	"context"

	"github.com/fairlock/locks/fairlock"
)

// bank is a service whose methods call each other. Each method locks the account it works on. So
// each is safe by itself, and none has to know whether its caller has locked the account already.
type bank struct {
	locker *fairlock.Locker
	show   func(layer string, l *fairlock.Lease)
	inside func(context.Context, *fairlock.Lease) error // what the example does in the innermost layer
}

// Transfer is the first layer.
func (b *bank) Transfer(ctx context.Context, account string) error {
	return b.locker.Do(ctx, account, func(ctx context.Context, l *fairlock.Lease) error {
		b.show("Transfer", l)
		return b.Withdraw(ctx, account)
	})
}

// Withdraw is the second layer. Others may call it, too.
func (b *bank) Withdraw(ctx context.Context, account string) error {
	return b.locker.Do(ctx, account, func(ctx context.Context, l *fairlock.Lease) error {
		b.show("  Withdraw", l)
		return b.Book(ctx, account)
	})
}

// Book is the third layer.
func (b *bank) Book(ctx context.Context, account string) error {
	return b.locker.Do(ctx, account, func(ctx context.Context, l *fairlock.Lease) error {
		b.show("    Book", l)
		return b.inside(ctx, l)
	})
}
