package main

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

func TestAScreenIsDrawnInColumnsWithItsColours(t *testing.T) {
	var out strings.Builder
	if err := draw(&out, strings.NewReader("\x1b[1ma <b>\x1b[0m plain\n\x1b[32m████\x1b[39m 4 \x1b[2;91mlast\n\n   \n"), 20); err != nil {
		t.Fatal(err)
	}
	picture := out.String()
	for _, want := range []string{
		`viewBox="0 0 200 68"`,
		`<text x="16.0" y="29" textLength="42.0" fill="#d8dee9" font-weight="bold">a &lt;b&gt;</text>`,
		`<text x="58.0" y="29" textLength="50.4" fill="#d8dee9"> plain</text>`,
		`<text x="16.0" y="47" textLength="33.6" fill="#8fc67c">████</text>`,
		`<text x="74.8" y="47" textLength="33.6" fill="#f08c95" opacity="0.6">last</text>`,
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("there is no %s in\n%s", want, picture)
		}
	}
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, picture)
		}
	}
}
