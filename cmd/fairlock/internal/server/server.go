// Package server connects a command to its Redis. It has the flags that say where the Redis is, and
// makes a client from them.
package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// Timeout bounds one dial, read or write. The library tries a first contact three times.
const Timeout = 2 * time.Second

// Connection says where the Redis is and how to talk to it: the flags of every command that needs a
// server.
type Connection struct {
	Redis string `group:"server" placeholder:"URL" env:"FAIRLOCK_REDIS" default:"redis://127.0.0.1:6379" help:"The Redis that keeps the locks (${env}; default ${default})."`
	TLSFiles
}

// URLs says which URLs --redis takes.
const URLs = `The server is one of

  redis://[user:password@]host[:6379][/database]     rediss:// for TLS
  unix://[user:password@]/path/to/socket[?db=1]
  redis://[user:password@]sentinel:26379[/database]?master_name=NAME[&addr=sentinel:26379...]
                [&username=U][&password=P]           user and password before the @ are for the Sentinels
  redis+cluster://[user:password@]host[:6379][?addr=host:6379...]

and takes go-redis's parameters, such as read_timeout=5s or skip_verify=true.`

// Open makes a client. Its only I/O is to read the files for TLS.
func (c *Connection) Open() (redis.UniversalClient, error) {
	client, err := c.prepare()
	if err != nil {
		return nil, err
	}
	return client(), nil
}

// form is the kind of deployment of a URL.
type form int

const (
	single form = iota
	sentinel
	cluster
)

// address parses the URL only to find out which of go-redis's parsers to use.
func (c *Connection) address() (form, *url.URL, error) {
	u, err := url.Parse(c.Redis)
	if err == nil && u.User == nil && strings.Contains(c.Redis, "@") {
		err = errors.New("user or password end early") // the parser took the part after the first / ? # for something else
	}
	if err != nil {
		return 0, nil, c.nonsense(err)
	}
	scheme, said, _ := strings.Cut(u.Scheme, "+")
	query := u.Query()
	switch {
	case said == "cluster" || said == "" && query.Has("addr") && !query.Has("master_name"):
		u.Scheme = scheme
		return cluster, u, nil
	case said == "" && query.Has("master_name"):
		return sentinel, u, nil
	}
	return single, u, nil
}

// prepare parses the URL and returns a function that makes a client.
func (c *Connection) prepare() (func() redis.UniversalClient, error) {
	form, u, err := c.address()
	if err != nil {
		return nil, err
	}
	switch form {
	case sentinel:
		o, err := redis.ParseFailoverURL(u.String())
		if err == nil {
			anyName(o.TLSConfig)
			err = c.tune(settings{&o.ClientName, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.MaxRetries, &o.DialerRetries, o.TLSConfig})
		}
		return func() redis.UniversalClient { return redis.NewFailoverClient(o) }, c.nonsense(err)
	case cluster:
		o, err := redis.ParseClusterURL(u.String())
		if err == nil {
			anyName(o.TLSConfig)
			err = c.tune(settings{&o.ClientName, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.MaxRetries, &o.DialerRetries, o.TLSConfig})
		}
		return func() redis.UniversalClient { return redis.NewClusterClient(o) }, c.nonsense(err)
	default:
		o, err := redis.ParseURL(u.String())
		if err == nil {
			err = c.tune(settings{&o.ClientName, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.MaxRetries, &o.DialerRetries, o.TLSConfig})
		}
		return func() redis.UniversalClient { return redis.NewClient(o) }, c.nonsense(err)
	}
}

// nonsense returns the exit.Error for an unusable URL. It does not show the password.
func (c *Connection) nonsense(err error) error {
	var end *exit.Error
	if err == nil || errors.As(err, &end) {
		return err
	}
	var parse *url.Error // the text of a url.Error has the URL
	if errors.As(err, &parse) {
		err = parse.Err
		if strings.Contains(c.Redis, "@") {
			err = errors.New("a part of it cannot be read; / ? # @ : and % in a user or password are written %2F %3F %23 %40 %3A and %25")
		}
	}
	return exit.Errorf(exit.Usage, "--redis wants redis://[user:password@]host[:port][/database] or another of the forms that --help tells: %w", err)
}

// anyName lets each node prove its own name, not that of the first address.
func anyName(config *tls.Config) {
	if config != nil {
		config.ServerName, config.MinVersion = "", tls.VersionTLS12
	}
}

// settings are the options that all kinds of client have.
type settings struct {
	name              *string
	dial, read, write *time.Duration
	retries, dials    *int
	tls               *tls.Config
}

// tune sets what the URL leaves open, so that an unreachable server is reported soon: the library
// does all the retries.
func (c *Connection) tune(k settings) error {
	preset(k.name, "fairlock")
	preset(k.dial, Timeout)
	preset(k.read, Timeout)
	preset(k.write, Timeout)
	preset(k.retries, -1)
	preset(k.dials, 1)
	return c.configure(k.tls)
}

func preset[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}

// String says where the server is, without the password.
func (c *Connection) String() string {
	form, u, err := c.address()
	switch {
	case err != nil:
		return "?"
	case form == sentinel:
		return fmt.Sprintf("%s of the Sentinel at %s", u.Query().Get("master_name"), u.Host)
	case form == cluster:
		return "the cluster at " + u.Host
	case u.Host == "":
		return u.Path
	}
	return u.Host
}
