package redact

import (
	"errors"
	"testing"
)

func TestWhatAServerRepeatsIsNotShown(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"ERR unknown command 'x'": "ERR unknown command 'x'",
		"node 1: ERR unknown command 'auth', with args beginning with: 'u' 'it''s' \nnode 2: ERR unknown command 'auth', with args beginning with: 's' \nnode 3: away": "node 1: ERR unknown command 'auth', arguments\nnode 2: ERR unknown command 'auth', arguments\nnode 3: away",
	} {
		if got := Text(text); got != want {
			t.Errorf("%q of %q", got, text)
		}
		err := errors.New(text)
		if got := Error(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("the error %q of %q", got, text)
		}
	}
	if err := Error(nil); err != nil {
		t.Error(err)
	}
}
