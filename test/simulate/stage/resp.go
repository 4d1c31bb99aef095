package stage

import (
	"bytes"
	"strconv"
)

// Request parses the first request in b, an array of bulk strings. n is the request's length, or 0
// if the request is not complete.
func Request(b []byte) (args []string, n int) {
	count, n := number(b, 0)
	for range count {
		if n == 0 {
			return nil, 0
		}
		size, at := number(b, n)
		if at == 0 || len(b) < at+size+2 {
			return nil, 0
		}
		args = append(args, string(b[at:at+size]))
		n = at + size + 2
	}
	return args, n
}

// number reads a line such as "*3\r\n". next is the position after the line, or 0 if the line is
// not complete.
func number(b []byte, from int) (value, next int) {
	end := bytes.IndexByte(b[min(from, len(b)):], '\n')
	if end < 2 {
		return 0, 0
	}
	value, err := strconv.Atoi(string(b[from+1 : from+end-1]))
	if err != nil {
		panic("a client sent something else than a request: " + strconv.Quote(string(b)))
	}
	return value, from + end + 1
}

// Push returns a frame that answers no request. elements are strings and ints.
func Push(resp3 bool, elements ...any) []byte {
	kind := byte('*')
	if resp3 {
		kind = '>'
	}
	b := append(strconv.AppendInt([]byte{kind}, int64(len(elements)), 10), '\r', '\n')
	for _, element := range elements {
		switch e := element.(type) {
		case string:
			b = append(strconv.AppendInt(append(b, '$'), int64(len(e)), 10), '\r', '\n')
			b = append(append(b, e...), '\r', '\n')
		case int:
			b = append(strconv.AppendInt(append(b, ':'), int64(e), 10), '\r', '\n')
		}
	}
	return b
}
