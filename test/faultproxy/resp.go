package faultproxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// errProtocol marks bytes that are not the RESP this package understands.
var errProtocol = errors.New("not RESP")

// maxLength is Redis's own limit of a string's length. A larger number is garbage, and must not
// decide how much memory is allocated.
const maxLength = 512 << 20

// readRequest reads one request, an array of bulk strings. It returns the
// request's bytes and its strings.
func readRequest(r *bufio.Reader) (raw []byte, args []string, err error) {
	raw, n, err := appendHeader(nil, r, '*')
	if err != nil {
		return nil, nil, err
	}
	if n < 1 {
		return nil, nil, fmt.Errorf("%w: a request of %d strings", errProtocol, n)
	}
	for range n {
		var size int
		if raw, size, err = appendHeader(raw, r, '$'); err != nil {
			return nil, nil, err
		}
		start := len(raw)
		if raw, err = appendBulk(raw, r, size); err != nil {
			return nil, nil, err
		}
		args = append(args, string(raw[start:start+size]))
	}
	return raw, args, nil
}

// readReply reads one reply, RESP2 or RESP3, and returns its bytes.
func readReply(r *bufio.Reader) ([]byte, error) { return appendReply(nil, r) }

// isPush says whether a reply is a RESP3 push frame, which answers no request.
func isPush(reply []byte) bool { return reply[0] == '>' }

func appendReply(raw []byte, r *bufio.Reader) ([]byte, error) {
	kind, err := peekKind(r)
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return appendLine(raw, r)
	case '$', '!', '=':
		raw, size, err := appendHeader(raw, r, kind)
		if err != nil || size < 0 { // -1 is RESP2's nil
			return raw, err
		}
		return appendBulk(raw, r, size)
	case '*', '~', '>':
		return appendElements(raw, r, kind, 1)
	case '%':
		return appendElements(raw, r, kind, 2)
	}
	return nil, fmt.Errorf("%w: a reply that begins with %q", errProtocol, kind)
}

// appendElements reads an aggregate whose header counts in units of perUnit
// replies; a nil array (-1) has none.
func appendElements(raw []byte, r *bufio.Reader, kind byte, perUnit int) ([]byte, error) {
	raw, n, err := appendHeader(raw, r, kind)
	for range n * perUnit {
		if err != nil {
			break
		}
		raw, err = appendReply(raw, r)
	}
	return raw, err
}

func peekKind(r *bufio.Reader) (byte, error) {
	b, err := r.Peek(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// appendHeader reads a line such as "*3\r\n" and returns its number.
func appendHeader(raw []byte, r *bufio.Reader, kind byte) ([]byte, int, error) {
	start := len(raw)
	raw, err := appendLine(raw, r)
	if err != nil {
		return nil, 0, err
	}
	line := raw[start : len(raw)-2]
	if line[0] != kind {
		return nil, 0, fmt.Errorf("%w: %q where %q should be", errProtocol, line, kind)
	}
	n, err := strconv.Atoi(string(line[1:]))
	if err != nil || n < -1 || n > maxLength {
		return nil, 0, fmt.Errorf("%w: %q is no length", errProtocol, line)
	}
	return raw, n, nil
}

// appendLine reads up to CRLF; the line holds at least one byte besides.
func appendLine(raw []byte, r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, fmt.Errorf("%w: the line %q", errProtocol, line)
	}
	return append(raw, line...), nil
}

// appendBulk reads size bytes and the CRLF behind them.
func appendBulk(raw []byte, r *bufio.Reader, size int) ([]byte, error) {
	if size < 0 {
		return nil, fmt.Errorf("%w: a string of length %d", errProtocol, size)
	}
	start := len(raw)
	raw = slices.Grow(raw, size+2)[:start+size+2]
	if _, err := io.ReadFull(r, raw[start:]); err != nil {
		return nil, err
	}
	if string(raw[start+size:]) != "\r\n" {
		return nil, fmt.Errorf("%w: a string without its end", errProtocol)
	}
	return raw, nil
}
