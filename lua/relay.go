package lua

import "strings"

// relayed reports whether the answer is the word of a proxy between the client and Redis that has
// lost sight of the request: the server may have executed the request, or may yet. No Redis says
// any of these.
//
//	Envoy      "upstream failure" (a timeout or a closed connection),
//	           "upstream protocol error", "no upstream host"
//	predixy    "ERR server connection close", "ERR deliver request fail", "ERR no server ..."
//	Codis      "ERR handle response, ..."
//	twemproxy  "ERR " and what the operating system says of its connection, or "ERR unknown"
//
// If a proxy says for certain that the request was not sent, calling that unknown does no harm.
func relayed(answer string) bool {
	text, wrapped := strings.CutPrefix(answer, "ERR ")
	if strings.HasPrefix(text, "upstream ") || strings.HasPrefix(text, "no upstream ") {
		return true
	}
	if !wrapped {
		return false
	}
	for _, begin := range []string{"server connection close", "deliver request fail", "no server ", "handle response, "} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	switch text {
	case "Connection timed out", "Operation timed out", "Connection reset by peer", "Connection refused", "Broken pipe",
		"Host is down", "No route to host", "Host is unreachable", "Network is unreachable", "Network unreachable", "unknown":
		return true
	}
	return false
}
