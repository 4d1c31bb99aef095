// Package clocks makes times of a machine whose two clocks have gone on differently.
package clocks

import (
	"reflect"
	"time"
)

// GoneOn is a time when the clocks have gone on for different times, which no function of package
// time can make. from must have a reading of the monotonic clock, as time.Now has.
func GoneOn(from time.Time, wall, monotonic time.Duration) time.Time {
	from = from.Add(wall)
	reading := reflect.ValueOf(&from).Elem().FieldByName("ext").Addr().UnsafePointer()
	*(*time.Duration)(reading) += monotonic - wall
	return from
}

// Suspended is a time right after a machine woke up that had been suspended for so long.
func Suspended(from time.Time, long time.Duration) time.Time {
	return GoneOn(from, long+time.Second, time.Second)
}
