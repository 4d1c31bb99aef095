package snippets_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/fairlock/locks/fairlock"
)

//guide:fencing.md
var errStale = errors.New("somebody with a later token has written")

// sell takes one piece out of stock.
func sell(ctx context.Context, db *sql.DB, sku string, token int64) error {
	done, err := db.ExecContext(ctx, `UPDATE stock SET n = n - 1, fence = $1 WHERE sku = $2 AND fence <= $1`, token, sku)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errStale
}

//guide:end

//guide:fencing.md

// claim begins a transaction that nobody with an earlier token can commit after.
func claim(ctx context.Context, tx *sql.Tx, resource string, token int64) error {
	done, err := tx.ExecContext(ctx, `INSERT INTO fence (resource, token) VALUES ($1, $2)
		ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fence.token <= excluded.token`, resource, token)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return errStale
}

//guide:end

// database is an SQLite in memory with what a page's SQL makes.
func database(t *testing.T, page string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	must(t, err)
	db.SetMaxOpenConns(1) // each connection would have a memory of its own
	t.Cleanup(func() { _ = db.Close() })
	for _, statement := range blocks(guides(t)[page], "sql") {
		if strings.HasPrefix(statement, "CREATE") {
			_, err := db.ExecContext(t.Context(), statement)
			must(t, err)
		}
	}
	return db
}

func vases(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	must(t, db.QueryRowContext(t.Context(), `SELECT n FROM stock`).Scan(&n))
	return n
}

func TestADatabaseRefusesTheWriteOfAHolderThatCameTooLate(t *testing.T) {
	ctx, locker := t.Context(), tryOut(t)
	db := database(t, "fencing.md")
	_, err := db.ExecContext(ctx, `INSERT INTO stock (sku, n) VALUES ('vase', 10)`)
	must(t, err)
	paused, err := locker.Lock(ctx, "stock:vase")
	must(t, err)
	must(t, locker.ForceUnlock(ctx, "stock:vase"))

	sellOne := func() error {
		//guide:fencing.md
		err := locker.Do(ctx, "stock:vase", func(ctx context.Context, l *fairlock.Lease) error {
			return sell(ctx, db, "vase", l.Token())
		})
		//guide:end
		return err
	}
	must(t, sellOne())
	if err := sell(ctx, db, "vase", paused.Token()); !errors.Is(err, errStale) || vases(t, db) != 9 {
		t.Errorf("a late write: %v; %d are left", err, vases(t, db))
	}
}

func TestATransactionThatClaimsALaterTokenShutsTheEarlierOnesOut(t *testing.T) {
	db := database(t, "fencing.md")
	for _, c := range []struct {
		token int64
		want  error
	}{{33, nil}, {33, nil}, {34, nil}, {33, errStale}, {34, nil}} {
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		if err := claim(t.Context(), tx, "warehouse", c.token); !errors.Is(err, c.want) {
			t.Errorf("token %d: %v, want %v", c.token, err, c.want)
		}
		must(t, tx.Commit())
	}
}

func TestAServiceRefusesASmallerTokenThanItHasSeen(t *testing.T) {
	db := database(t, "fencing.md")
	_, err := db.ExecContext(t.Context(), `INSERT INTO stock (sku, n) VALUES ('vase', 10)`)
	must(t, err)
	//guide:fencing.md
	sells := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := strconv.ParseInt(r.Header.Get("Fencing-Token"), 10, 64)
		if err != nil {
			http.Error(w, "no fencing token", http.StatusPreconditionRequired)
			return
		}
		switch err := sell(r.Context(), db, r.PathValue("sku"), token); {
		case errors.Is(err, errStale):
			http.Error(w, err.Error(), http.StatusPreconditionFailed)
		case err != nil:
			http.Error(w, "no sale", http.StatusInternalServerError)
		}
	})
	//guide:end
	mux := http.NewServeMux()
	mux.Handle("POST /sell/{sku}", sells)
	for _, c := range []struct {
		token string
		want  int
	}{{"33", 200}, {"34", 200}, {"33", 412}, {"34", 200}, {"", 428}} {
		request := httptest.NewRequest(http.MethodPost, "/sell/vase", http.NoBody)
		request.Header.Set("Fencing-Token", c.token)
		answer := httptest.NewRecorder()
		mux.ServeHTTP(answer, request)
		if answer.Code != c.want {
			t.Errorf("token %q: %d, want %d", c.token, answer.Code, c.want)
		}
	}
	if n := vases(t, db); n != 7 {
		t.Errorf("%d are left", n)
	}
}

func TestADocumentBehindETagsKeepsTheLatestToken(t *testing.T) {
	store := newStore(t)
	store.write("/notice", `{"fence": 32, "text": "old"}`)
	url := store.URL + "/notice"
	must(t, replace(t.Context(), store.Client(), url, "A", 33))
	store.meanwhile("/notice", `{"fence": 33, "text": "A, once more"}`)
	must(t, replace(t.Context(), store.Client(), url, "B", 34))
	if err := replace(t.Context(), store.Client(), url, "A, late", 33); !errors.Is(err, errStale) {
		t.Errorf("a late write: %v", err)
	}
	store.write("/notice", `{"fence": 34, "text": "B"}`)
	store.meanwhile("/notice", `{"fence": 35, "text": "C"}`)
	if err := replace(t.Context(), store.Client(), url, "B, late", 34); !errors.Is(err, errStale) {
		t.Errorf("a write that was overtaken: %v", err)
	}
	var last document
	must(t, json.Unmarshal([]byte(store.read("/notice")), &last))
	if last != (document{35, "C"}) {
		t.Errorf("it says %+v", last)
	}
}
