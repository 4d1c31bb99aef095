package main

import (
	"crypto/rand"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fairlock/locks/examples/internal/stagetest"
	"github.com/fairlock/locks/test/redistest"
)

func TestMain(m *testing.M) { stagetest.Main(m, main) }

func TestNothingIsSoldTwiceOrOutOfTurnAndAStaleWriteIsRefused(t *testing.T) {
	t.Run("embedded and SQLite", func(t *testing.T) {
		t.Parallel()
		checkSeckill(t, "", filepath.Join(t.TempDir(), "shop.db"))
	})
	t.Run("real and PostgreSQL", func(t *testing.T) {
		t.Parallel()
		checkSeckill(t, startPostgres(t), "", "-redis", "redis://"+redistest.Start(t).Addr())
	})
}

var shownLines = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^100 bought, \d+ were told that it is sold out, \d+ that the line is full;`),
	regexp.MustCompile(`(?m)^SIGCONT: it wakes up. Its lease says that the lock is lost: true. The database refuses its write: true.$`),
	regexp.MustCompile(`(?m)^audit: 20000 buyers, 100 of 100 pieces sold, to the first 100 in line and in their order, 0 left; a stale write refused$`),
}

// checkSeckill runs the example, and then checks its database independently.
func checkSeckill(t *testing.T, postgres, sqlite string, args ...string) {
	t.Helper()
	prefix := "test-" + strings.ToLower(rand.Text()[:8]) // the database may outlive the test
	shown := stagetest.Run(t, append(args, "-postgres", postgres, "-sqlite", sqlite, "-prefix", prefix)...)
	for _, line := range shownLines {
		if !line.MatchString(shown) {
			t.Errorf("no line %s in\n%s", line, shown)
		}
	}
	db, err := open(t.Context(), postgres, sqlite)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	checkSales(t, db, prefix+lamp, 100, 0)
	checkSales(t, db, prefix+vase, others, vases-others)
}

// checkSales checks that want sales were made, in the order of their tokens, each to another buyer,
// and none to the buyer that overslept.
func checkSales(t *testing.T, db database, sku string, want, wantLeft int) {
	t.Helper()
	sales, left, err := db.sales(t.Context(), sku)
	if err != nil {
		t.Fatal(err)
	}
	if len(sales) != want || left != wantLeft {
		t.Errorf("%s: %d sold and %d left, want %d and %d", sku, len(sales), left, want, wantLeft)
	}
	seen := make(map[int]bool)
	for i, sale := range sales {
		if i > 0 && sale.token <= sales[i-1].token {
			t.Errorf("%s: sale %d has token %d after %d", sku, i+1, sale.token, sales[i-1].token)
		}
		if seen[sale.buyer] || sale.buyer == 0 {
			t.Errorf("%s: buyer %d has bought once more, or with a stale token", sku, sale.buyer)
		}
		seen[sale.buyer] = true
	}
}
