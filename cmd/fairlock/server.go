package main

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
)

// impatience is how long one dial, read or write may take. The library tries a first contact three times.
const impatience = 2 * time.Second

// connect makes a client for a Redis URL. It does no I/O.
func connect(address string) (*redis.Client, error) {
	redis.SetLogger(silence{})
	options, err := clientOptions(address)
	if err != nil {
		return nil, err
	}
	return redis.NewClient(options), nil
}

// clientOptions reads a Redis URL. What it leaves open is set so that an unreachable server is reported soon: the library
// does all the retrying that is needed.
func clientOptions(address string) (*redis.Options, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		var parse *url.Error // its text has the URL, and that the password
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fail(exitUsage, "--redis wants redis://[user:password@]host[:port][/database]: %w", err)
	}
	options.ClientName = "fairlock"
	preset(&options.DialTimeout, impatience)
	preset(&options.ReadTimeout, impatience)
	preset(&options.WriteTimeout, impatience)
	preset(&options.MaxRetries, -1)
	preset(&options.DialerRetries, 1)
	return options, nil
}

func preset[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}

// silence is a logger for go-redis, whose every error reaches us as a value anyway.
type silence struct{}

// Printf drops a line.
func (silence) Printf(context.Context, string, ...any) {}
