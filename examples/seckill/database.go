package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net/url"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

var (
	postgres = flag.String("postgres", "", "the `URL` of a PostgreSQL to sell from, where the tables seckill_stock and seckill_sale stay to be looked at")
	sqlite   = flag.String("sqlite", "", "the `file` of an SQLite database to sell from, which stays; without one, it is removed at the end")
)

// sqliteOptions let several processes use the file: while one process writes, others wait.
const sqliteOptions = "_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"

// The reasons why a piece was not sold.
var (
	errSoldOut = errors.New("sold out")
	errStale   = errors.New("somebody with a larger token has written")
)

// database is guarded by the lock, but does not rely on it alone: it keeps the largest token that
// has written.
type database struct{ *sql.DB }

// open opens the PostgreSQL at the URL or, without a URL, the SQLite database in the file.
func open(ctx context.Context, postgres, file string) (database, error) {
	driver, source := "pgx", postgres
	if postgres == "" {
		driver, source = "sqlite", "file:"+url.PathEscape(file)+"?"+sqliteOptions
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return database{}, err
	}
	if err := db.PingContext(ctx); err != nil {
		_ = db.Close()
		return database{}, fmt.Errorf("no database: %w", err)
	}
	return database{db}, nil
}

// stock puts pieces on sale.
func (d database) stock(ctx context.Context, sku string, pieces int) error {
	for _, statement := range []string{
		`CREATE TABLE IF NOT EXISTS seckill_stock (sku TEXT PRIMARY KEY, n BIGINT NOT NULL, fence BIGINT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS seckill_sale (sku TEXT, n BIGINT, buyer BIGINT NOT NULL, token BIGINT NOT NULL, PRIMARY KEY (sku, n))`,
	} {
		if _, err := d.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	_, err := d.ExecContext(ctx, `INSERT INTO seckill_stock (sku, n, fence) VALUES ($1, $2, 0)`, sku, pieces)
	return err
}

// sell sells one piece and returns how many are left. But if a later holder of the lock has written
// already, sell returns an error: then the caller has slept through the end of its lease, and has
// no right to write any more.
func (d database) sell(ctx context.Context, sku string, buyer int, token int64) (left int, err error) {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing after Commit, and without one nothing is to stay
	err = tx.QueryRowContext(ctx, `UPDATE seckill_stock SET n = n - 1, fence = $1 WHERE sku = $2 AND fence <= $1 AND n > 0 RETURNING n`,
		token, sku).Scan(&left)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, whyNot(ctx, tx, sku, token)
	}
	if err != nil {
		return 0, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO seckill_sale (sku, n, buyer, token) VALUES ($1, $2, $3, $4)`, sku, left, buyer, token)
	if err != nil {
		return 0, err
	}
	return left, tx.Commit()
}

func whyNot(ctx context.Context, tx *sql.Tx, sku string, token int64) error {
	var fence int64
	if err := tx.QueryRowContext(ctx, `SELECT fence FROM seckill_stock WHERE sku = $1`, sku).Scan(&fence); err != nil {
		return err
	}
	if fence > token {
		return errStale
	}
	return errSoldOut
}

// sale is one sold piece.
type sale struct {
	buyer int
	token int64
}

// sales returns all sales of a kind of piece, in the order in which they were made, and how many
// pieces are left.
func (d database) sales(ctx context.Context, sku string) (all []sale, left int, err error) {
	if err := d.QueryRowContext(ctx, `SELECT n FROM seckill_stock WHERE sku = $1`, sku).Scan(&left); err != nil {
		return nil, 0, err
	}
	rows, err := d.QueryContext(ctx, `SELECT buyer, token FROM seckill_sale WHERE sku = $1 ORDER BY n DESC`, sku)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var s sale
		if err := rows.Scan(&s.buyer, &s.token); err != nil {
			return nil, 0, err
		}
		all = append(all, s)
	}
	return all, left, rows.Err()
}
