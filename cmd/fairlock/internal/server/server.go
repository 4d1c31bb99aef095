// Package server connects a command to its Redis. It has the flags that say where the Redis is, and
// makes a client from them.
package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fairlock/locks/cmd/fairlock/internal/exit"
)

// Timeout bounds one dial, read or write. The library tries a first contact three times.
const Timeout = 2 * time.Second

// Connection says where the Redis is and how to talk to it: the flags of every command that needs a
// server. It names one server, or the nodes of a quorum.
type Connection struct {
	Redis        []string      `group:"server" sep:"none" placeholder:"URL" env:"FAIRLOCK_REDIS" default:"redis://127.0.0.1:6379" help:"The Redis that keeps the locks (${env}, which suits passwords: others can see a command line; default ${default}). Several are the nodes of a quorum."`
	LongestLease time.Duration `group:"server" placeholder:"DURATION" env:"FAIRLOCK_LONGEST_LEASE" help:"The longest lease of a quorum, which all its users set alike (${env}; default 1m)."`
	Set          string        `group:"server" placeholder:"NAME" env:"FAIRLOCK_SET" help:"What a quorum's users call the set of its nodes, if not by their addresses (${env})."`
	TLSFiles

	hurried bool // see Hurry
}

// Hurry has clients that are made from now on end a request when its context ends. Otherwise a
// request to a server that hangs goes on until its own timeout, and whoever closes waits for that.
func (c *Connection) Hurry() { c.hurried = true }

// URLs says which URLs --redis takes.
const URLs = `The server is one of

  redis://[user:password@]host[:6379][/database]     rediss:// for TLS; redis:// may be left out
  unix://[user:password@]/path/to/socket[?db=1]
  redis://[user:password@]sentinel:26379[/database]?master_name=NAME[&addr=sentinel:26379...]
                [&username=U][&password=P]           user and password before the @ are for the Sentinels
  redis+cluster://[user:password@]host[:6379][?addr=host:6379...]
  quorum:host[:6379],host[:6379],host[:6379]         a quorum of masters, each a host or a redis:// or
                rediss:// URL; or --redis three times

and takes go-redis's parameters, such as read_timeout=5s or skip_verify=true. In the URLs of a quorum a comma is
written %2C. A quorum has fair locks only, of package quorum; watch, web, --plain, --redisson and --owner are not for it.`

// Open makes a client of one server. Its only I/O is to read the files for TLS.
func (c *Connection) Open() (redis.UniversalClient, error) {
	switch {
	case c.Quorum():
		return nil, exit.Errorf(exit.Usage, "--redis names a quorum, and this command needs one server")
	case c.LongestLease != 0 || c.Set != "":
		return nil, exit.Errorf(exit.Usage, "--longest-lease and --set are of use with a quorum only: --redis quorum:HOST,HOST,HOST%s", Exported("FAIRLOCK_LONGEST_LEASE", "FAIRLOCK_SET"))
	}
	client, err := c.site().prepare()
	if err != nil {
		return nil, err
	}
	return client(), nil
}

// Exported says which of these variables stand in the environment, for whoever typed no such flag.
func Exported(names ...string) string {
	set := slices.DeleteFunc(names, func(name string) bool { return os.Getenv(name) == "" })
	if len(set) == 0 {
		return ""
	}
	return " (the environment has " + strings.Join(set, " and ") + ")"
}

// site is one server, or what acts as one.
type site struct {
	url   string
	files *TLSFiles
	hush  bool // see secretive

	hurried bool
}

// site returns the site of a Connection that is no quorum.
func (c *Connection) site() *site {
	one := strings.Join(c.Redis, "")
	return &site{url: schemed(one), files: &c.TLSFiles, hush: secretive(one), hurried: c.hurried}
}

// schemed takes what names no scheme for a host.
func schemed(url string) string {
	if url == "" || strings.Contains(url, "://") {
		return url
	}
	return "redis://" + url
}

// secretive reports whether a password may be in text: before an @, or a Sentinel's in the query.
func secretive(text string) bool { return strings.Contains(text, "@") || parameter(text) }

// parameter reports whether a password may be a parameter, sentinel_password also. Then each other
// parameter may be a part of it.
func parameter(text string) bool { return strings.Contains(text, "password=") }

// form is the kind of deployment of a URL.
type form int

const (
	single form = iota
	sentinel
	cluster
)

// address parses the URL only to find out which of go-redis's parsers to use.
func (s *site) address() (form, *url.URL, error) {
	u, err := url.Parse(s.url)
	if err == nil && strings.Contains(s.url, "@") && (u.User == nil || strays(u)) {
		err = errors.New("user or password end early") // the parser took the part after the first / ? # for something else
	}
	var query url.Values
	if err == nil {
		query, err = url.ParseQuery(u.RawQuery) // u.Query, and so go-redis, drops what it cannot read
	}
	if err == nil && u.Fragment != "" {
		err = errors.New("nothing can follow a #") // go-redis drops that, too
	}
	if err != nil {
		return 0, nil, s.nonsense(err)
	}
	scheme, said, _ := strings.Cut(u.Scheme, "+")
	switch {
	case said == "cluster" || said == "" && query.Has("addr") && !query.Has("master_name"):
		u.Scheme = scheme
		return cluster, u, nil
	case said == "" && query.Has("master_name"):
		return sentinel, u, nil
	}
	return single, u, nil
}

// strays reports whether an @ stands where none can be, though there is a user: it is the end of
// the password.
func strays(u *url.URL) bool {
	for name := range u.Query() {
		if strings.Contains(name, "@") {
			return true
		}
	}
	if u.Scheme == "unix" {
		return u.Host != ""
	}
	return strings.Contains(u.Path, "@") || strings.Contains(u.Fragment, "@")
}

// prepare parses the URL and returns a function that makes a client.
func (s *site) prepare() (func() redis.UniversalClient, error) {
	form, u, err := s.address()
	if err != nil {
		return nil, err
	}
	switch form {
	case sentinel:
		o, err := redis.ParseFailoverURL(u.String())
		if err == nil {
			anyName(o.TLSConfig)
			err = s.tune(settings{&o.ClientName, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.MaxRetries, &o.DialerRetries, o.TLSConfig, &o.ContextTimeoutEnabled})
		}
		return func() redis.UniversalClient { return redis.NewFailoverClient(o) }, s.nonsense(err)
	case cluster:
		o, err := redis.ParseClusterURL(u.String())
		if err == nil {
			anyName(o.TLSConfig)
			err = s.tune(settings{&o.ClientName, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.MaxRetries, &o.DialerRetries, o.TLSConfig, &o.ContextTimeoutEnabled})
		}
		return func() redis.UniversalClient { return redis.NewClusterClient(o) }, s.nonsense(err)
	default:
		o, err := s.options(u)
		return func() redis.UniversalClient { return redis.NewClient(o) }, err
	}
}

// options are those of a client of a single server.
func (s *site) options(u *url.URL) (*redis.Options, error) {
	o, err := redis.ParseURL(u.String())
	if err == nil {
		err = s.tune(settings{&o.ClientName, &o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.MaxRetries, &o.DialerRetries, o.TLSConfig, &o.ContextTimeoutEnabled})
	}
	return o, s.nonsense(err)
}

// nonsense returns the exit.Error for an unusable URL. It does not show the password.
func (s *site) nonsense(err error) error {
	var end *exit.Error
	if err == nil || errors.As(err, &end) {
		return err
	}
	var parse *url.Error // the text of a url.Error has the URL
	parsed := !errors.As(err, &parse)
	if !parsed {
		err = parse.Err
	}
	if s.hush && (!parsed || strings.Count(s.url, "@") > 1 || parameter(s.url)) { // else the text has a part that is none of the password
		err = errors.New("a part of it cannot be read; / ? # @ : and % in a user or password are written %2F %3F %23 %40 %3A and %25, " +
			"and & ; + in a parameter %26 %3B and %2B")
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
	hurried           *bool
}

// tune sets what the URL leaves open, so that an unreachable server is reported soon: the library
// does all the retries.
func (s *site) tune(k settings) error {
	preset(k.name, "fairlock")
	preset(k.dial, Timeout)
	preset(k.read, Timeout)
	preset(k.write, Timeout)
	preset(k.retries, -1)
	preset(k.dials, 1)
	preset(k.hurried, s.hurried)
	return s.files.configure(k.tls)
}

func preset[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}

// String says where the server is, without the password.
func (c *Connection) String() string {
	if c.Quorum() {
		return c.quorumString()
	}
	return c.site().String()
}

// String says where the server is, without the password.
func (s *site) String() string {
	form, u, err := s.address()
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
