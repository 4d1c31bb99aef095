//go:build unix && !linux

package run

// adopt does nothing here: the system adopts processes whose parent has died.
func adopt() {}

// offspring reports whether a process is left in the child's process group. Processes that have
// left the group cannot be found here.
func (c *child) offspring() (group bool, strays []int) { return c.groupExists(), nil }

// bystanders returns nothing: offspring looks at the command's group only.
func bystanders() map[int]uint64 { return nil }
