package top

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/locks"
	"github.com/fairlock/locks/cmd/fairlock/internal/look"
	"github.com/fairlock/locks/cmd/fairlock/internal/survey"
	"github.com/fairlock/locks/fairlock"
	"github.com/fairlock/locks/fairlock/embedded"
)

func TestASnapshotForPeopleShowsAllOfEveryName(t *testing.T) {
	var out bytes.Buffer
	if err := WriteText(&out, scenery().picture, false); err != nil {
		t.Fatal(err)
	}
	golden(t, "snapshot", out.String())
	out.Reset()
	if err := WriteText(&out, &survey.Picture{}, true); err != nil {
		t.Fatal(err)
	}
	golden(t, "snapshot-nothing", out.String())
}

func TestASnapshotForProgramsHasEveryLockAndTheTotals(t *testing.T) {
	var out bytes.Buffer
	picture := scenery().picture
	picture.At = picture.At.In(time.FixedZone("elsewhere", 3600))
	if err := WriteJSON(&out, picture); err != nil {
		t.Fatal(err)
	}
	var got struct {
		At      string  `json:"at"`
		Held    int     `json:"held"`
		Waiting int     `json:"waiting"`
		Rate    float64 `json:"handovers_per_second"`
		Longest int64   `json:"longest_wait_ms"`
		Locks   []struct {
			Name    string  `json:"lock"`
			Waiting int     `json:"waiting"`
			Rate    float64 `json:"handovers_per_second"`
			Note    string  `json:"note"`
			Held    int64   `json:"held_ms"`
		} `json:"locks"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatal(err, out.String())
	}
	evil := got.Locks[0]
	if !strings.HasSuffix(got.At, "Z") || got.Held != 34 || got.Waiting != 10365 || got.Rate < 37000 || got.Longest != 61*60*1000 || len(got.Locks) != 35 ||
		evil.Name != "evil\x1b[2J\nname" || evil.Waiting != 3 || evil.Rate != 12.34 || evil.Note != "\x1b]0;title\a" || evil.Held != 80 {
		t.Errorf("%+v", got)
	}
	out.Reset()
	if err := WriteJSON(&out, &survey.Picture{}); err != nil || !strings.Contains(out.String(), `"locks":[]`) {
		t.Error(err, out.String())
	}
}

func TestASnapshotSeesWhoHoldsWhoWaitsAndForHowLong(t *testing.T) {
	server, err := embedded.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	locker := fairlock.New(rdb, fairlock.WithLogger(slog.New(slog.DiscardHandler)))
	defer locker.Close()
	lease, err := locker.Lock(t.Context(), "x", fairlock.Note("holder"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	waits, over := make(chan int, 1), make(chan error, 1)
	go func() {
		_, err := locker.Lock(ctx, "x", fairlock.OnQueued(func(at int) { waits <- at }))
		over <- err
	}()
	<-waits
	all := survey.New(look.NewPace(time.Second, rdb), locks.Locker{Kind: locks.Fair, Interface: locker})
	p, err := Snapshot(t.Context(), all)
	if err != nil || len(p.Locks) != 1 || p.Locks[0].Holder.Note != "holder" || p.Locks[0].Waiting != 1 || p.Locks[0].Longest <= 0 || p.Totals().Rate != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	state, next, err := all.Line(t.Context(), "x")
	if err != nil || len(state.Waiters) != 1 || next <= 0 {
		t.Errorf("%+v, %v, %v", state, next, err)
	}
	cancel()
	if _, err := Snapshot(ctx, all); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := lease.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
}
