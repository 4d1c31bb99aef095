// Package simulate runs whole clients over an embedded server in fake time.
package simulate
