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
	"sync"
	"testing"

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
		case etag == nil:
			write.IfNoneMatch = aws.String("*")
		case before.Fence > token:
			return errStale
		default:
			write.IfMatch = etag
		}
		_, err = client.PutObject(ctx, write)
		var refused smithy.APIError
		if !errors.As(err, &refused) || refused.ErrorCode() != "PreconditionFailed" && refused.ErrorCode() != "ConditionalRequestConflict" {
			return err
		}
		// Somebody has written since: look again.
	}
}

// get reads a document; without an ETag there is none.
func get(ctx context.Context, client *s3.Client, bucket, key string) (document, *string, error) {
	found, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if none := (*types.NoSuchKey)(nil); errors.As(err, &none) {
		return document{}, nil, nil
	}
	if err != nil {
		return document{}, nil, err
	}
	defer found.Body.Close()
	var d document
	err = json.NewDecoder(found.Body).Decode(&d)
	return d, found.ETag, err
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
			continue
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
	err = json.NewDecoder(response.Body).Decode(&d)
	return d, response.Header.Get("ETag"), err
}

//guide:end

// store is as much of S3 as the snippets use, and of any service that compares ETags: GET, and PUT
// under a condition.
type store struct {
	*httptest.Server

	mu      sync.Mutex // guards all below
	objects map[string][]byte
	first   map[string][]byte // what somebody else writes before the next PUT, once
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
		w.Header().Set("ETag", etag(now))
		_, _ = w.Write(now)
	case http.MethodPut:
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

func TestAnObjectInS3KeepsTheLatestToken(t *testing.T) {
	store := newStore(t)
	client := s3.New(s3.Options{
		Region: "eu-central-1", BaseEndpoint: &store.URL, UsePathStyle: true,
		Credentials:                credentials.NewStaticCredentialsProvider("key", "secret", ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired, // the store cannot read what is sent in chunks
	})
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
