//go:build unix && !linux

package run

// adopt does nothing here: who has lost his parent is the system's.
func adopt() {}

// offspring is whether something lives in the child's process group. Who has left it is not to be
// found here.
func (c *child) offspring() (group bool, strays []int) { return c.groupExists(), nil }
