package snippets_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

//guide:fencing.md

// document is an object with the token of who wrote it.
type document struct {
	Fence int64  `json:"fence"`
	Text  string `json:"text"`
}

// put writes a document, unless somebody with a later token has.
func put(ctx context.Context, client *s3.Client, bucket, key, text string, token int64) error {
	body, err := json.Marshal(document{Fence: token, Text: text})
	if err != nil {
		return err
	}
	for {
		write := &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body)}
		before, etag, err := get(ctx, client, bucket, key)
		switch {
		case err != nil:
			return err
		case etag == "":
			write.IfNoneMatch = aws.String("*")
		case before.Fence > token:
			return errStale
		default:
			write.IfMatch = &etag
		}
		_, err = client.PutObject(ctx, write)
		var refused smithy.APIError
		if !errors.As(err, &refused) || refused.ErrorCode() != "PreconditionFailed" && refused.ErrorCode() != "ConditionalRequestConflict" {
			return err
		}
		if err := pause(ctx); err != nil { // somebody has written since: look again
			return err
		}
	}
}

// get reads a document; without an ETag there is none.
func get(ctx context.Context, client *s3.Client, bucket, key string) (document, string, error) {
	found, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if none := (*types.NoSuchKey)(nil); errors.As(err, &none) {
		return document{}, "", nil
	}
	if err != nil {
		return document{}, "", err
	}
	defer found.Body.Close()
	var d document
	if err := json.NewDecoder(found.Body).Decode(&d); err != nil {
		return document{}, "", err
	}
	etag, err := state(aws.ToString(found.ETag))
	return d, etag, err
}

// errNoState: such a service cannot compare.
var errNoState = errors.New("no strong ETag")

// state returns an ETag that stands for one state of a document. A weak one matches nothing.
func state(etag string) (string, error) {
	if etag == "" || strings.HasPrefix(etag, "W/") {
		return "", fmt.Errorf("%w: %q", errNoState, etag)
	}
	return etag, nil
}

// pause waits before the next look: somebody may write often.
func pause(ctx context.Context) error {
	select {
	case <-time.After(100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

//guide:end

//guide:fencing.md

// replace writes a document to a service that compares ETags.
func replace(ctx context.Context, client *http.Client, url, text string, token int64) error {
	for {
		before, etag, err := fetch(ctx, client, url)
		if err != nil {
			return err
		}
		if before.Fence > token {
			return errStale
		}
		body, err := json.Marshal(document{Fence: token, Text: text})
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("If-Match", etag)
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		switch response.StatusCode {
		case http.StatusOK, http.StatusNoContent:
			return nil
		case http.StatusPreconditionFailed:
			if err := pause(ctx); err != nil { // somebody has written since: look again
				return err
			}
		default:
			return fmt.Errorf("PUT %s: %s", url, response.Status)
		}
	}
}

// fetch reads a document and its ETag.
func fetch(ctx context.Context, client *http.Client, url string) (document, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return document{}, "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return document{}, "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return document{}, "", fmt.Errorf("GET %s: %s", url, response.Status)
	}
	var d document
	if err := json.NewDecoder(response.Body).Decode(&d); err != nil {
		return document{}, "", err
	}
	etag, err := state(response.Header.Get("ETag"))
	return d, etag, err
}

//guide:end

// store is as much of S3 as the snippets use, and of any service that compares ETags: GET, and PUT
// under a condition.
type store struct {
	*httptest.Server

	mu      sync.Mutex // guards all below
	objects map[string][]byte
	first   map[string][]byte // what somebody else writes before the next PUT, once
	weak    bool              // its ETags are weak
	mute    bool              // it has none
	puts    int
}

func newStore(t *testing.T) *store {
	s := &store{objects: map[string][]byte{}, first: map[string][]byte{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Server.Close)
	return s
}

func (s *store) write(path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[path] = []byte(body)
}

func (s *store) meanwhile(path, body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first[path] = []byte(body)
}

func (s *store) read(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.objects[path])
}

// etag is of the contents alone, as S3's.
func etag(body []byte) string { return fmt.Sprintf(`"%x"`, sha256.Sum256(body)) }

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, exists := s.objects[r.URL.Path]
	switch r.Method {
	case http.MethodGet:
		if !exists {
			refuse(w, http.StatusNotFound, "NoSuchKey")
			return
		}
		switch {
		case s.weak:
			w.Header().Set("ETag", "W/"+etag(now))
		case !s.mute:
			w.Header().Set("ETag", etag(now))
		}
		_, _ = w.Write(now)
	case http.MethodPut:
		s.puts++
		if other, ok := s.first[r.URL.Path]; ok {
			delete(s.first, r.URL.Path)
			s.objects[r.URL.Path], now, exists = other, other, true
		}
		match := r.Header.Get("If-Match")
		if exists && r.Header.Get("If-None-Match") == "*" || match != "" && match != etag(now) {
			refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			refuse(w, http.StatusBadRequest, "IncompleteBody")
			return
		}
		s.objects[r.URL.Path] = body
		w.Header().Set("ETag", etag(body))
	}
}

// refuse answers as S3 does.
func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", code, http.StatusText(status))
}

// bucket returns a client of S3 whose server is the store.
func (s *store) bucket() *s3.Client {
	return s3.New(s3.Options{
		Region: "eu-central-1", BaseEndpoint: &s.URL, UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider("key", "secret", ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, // the store cannot read what is sent in chunks
	})
}

func TestAnObjectInS3KeepsTheLatestToken(t *testing.T) {
	store := newStore(t)
	client := store.bucket()
	writes := func(text string, token int64) error { return put(t.Context(), client, "bucket", "notice", text, token) }
	must(t, writes("A", 33))
	must(t, writes("A", 33)) // the same again
	must(t, writes("B", 34))
	if err := writes("A, late", 33); !errors.Is(err, errStale) {
		t.Errorf("a late write: %v", err)
	}
	store.meanwhile("/bucket/notice", `{"fence": 35, "text": "C"}`)
	if err := writes("B, late", 34); !errors.Is(err, errStale) {
		t.Errorf("a write that was overtaken: %v", err)
	}
	store.meanwhile("/bucket/new", `{"fence": 35, "text": "C"}`)
	if err := put(t.Context(), client, "bucket", "new", "B, late", 34); !errors.Is(err, errStale) {
		t.Errorf("a first write that was overtaken: %v", err)
	}
	store.meanwhile("/bucket/other", `{"fence": 33, "text": "A"}`)
	must(t, put(t.Context(), client, "bucket", "other", "B", 34))
	for key, want := range map[string]document{"notice": {35, "C"}, "new": {35, "C"}, "other": {34, "B"}} {
		if got, _, err := get(t.Context(), client, "bucket", key); err != nil || got != want {
			t.Errorf("%s: %+v, %v", key, got, err)
		}
	}
}

func TestNothingIsWrittenWhereETagsCannotBeCompared(t *testing.T) {
	for name, broken := range map[string]func(*store){
		"weak ETags": func(s *store) { s.weak = true },
		"no ETags":   func(s *store) { s.mute = true },
	} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			broken(store)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			const old = `{"fence": 32, "text": "old"}`
			store.write("/bucket/notice", old)
			if err := replace(ctx, store.Client(), store.URL+"/bucket/notice", "A", 33); !errors.Is(err, errNoState) {
				t.Errorf("replace: %v", err)
			}
			if err := put(ctx, store.bucket(), "bucket", "notice", "A", 33); !errors.Is(err, errNoState) {
				t.Errorf("put: %v", err)
			}
			if now := store.read("/bucket/notice"); now != old || store.puts != 0 {
				t.Errorf("%d writes, and it says %s", store.puts, now)
			}
		})
	}
}

func TestAWriterThatWasOvertakenPausesBeforeItLooksAgainUnlessItsContextEnds(t *testing.T) {
	store := newStore(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	for name, writes := range map[string]func() error{
		"replace": func() error { return replace(ctx, store.Client(), store.URL+"/bucket/notice", "A", 33) },
		"put":     func() error { return put(ctx, store.bucket(), "bucket", "notice", "A", 33) },
	} {
		store.write("/bucket/notice", `{"fence": 31, "text": "old"}`)
		store.meanwhile("/bucket/notice", `{"fence": 32, "text": "B"}`)
		began := time.Now()
		must(t, writes())
		if took := time.Since(began); took < 100*time.Millisecond {
			t.Errorf("%s: no pause: %v", name, took)
		}
	}
	over := errors.New("over")
	cancel(over)
	if err := pause(ctx); !errors.Is(err, over) {
		t.Errorf("a pause after its context has ended: %v", err)
	}
}
