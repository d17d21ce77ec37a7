// Package s3 opens s3://BUCKET/KEY references for a fabric, makes links to them, and
// keeps outputs there: its Store is a Resolver for fabric.Options.Resolvers, and one
// that WithPrefix gives is an OutputStore for fabric.Options.Outputs.
//
// A record says s3://BUCKET/KEY and nothing else. The credentials are those of the
// process that opens it. A link, which is a presigned URL, is made when an attempt
// begins, lasts for a while, and is stored nowhere; no error shows one.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/weft-fabric/weft/internal/silence"
	"github.com/weft-fabric/weft/job"
)

// Scheme is that of the references.
const Scheme = "s3"

// partSize is how many bytes of an output are sent at once, and kept in memory
// until they have arrived. There are at most 10,000 parts.
const partSize = 16 << 20

// tries is how often a request is made before its error is given.
const tries = 3

// longestSilence is how long nothing may come of an object before its reading is
// given up.
const longestSilence = 30 * time.Second

// Bounds of a link's life, of the protocol.
const (
	MinLinkLife = time.Second
	MaxLinkLife = 7 * 24 * time.Hour
)

// Options are the settings of a Store.
type Options struct {
	// Endpoint is the server's URL, http://HOST[:PORT] or https://HOST[:PORT].
	Endpoint string
	// Region is that of the buckets. The default, empty, is us-east-1.
	Region string
	// LinkLife is how long a link is good for, from MinLinkLife to MaxLinkLife. The
	// default, 0, is an hour.
	LinkLife time.Duration
	// Credentials sign the requests. The default, nil, is the usual environment,
	// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or else the usual
	// file, by AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE; without either requests are
	// not signed.
	Credentials *credentials.Credentials
}

// Store is an S3 server. It may be used from many goroutines at once.
type Store struct {
	client *minio.Client
	life   time.Duration
	prefix string // s3://BUCKET/PREFIX/ for Put
}

// New makes a Store. It asks the server nothing.
func New(o Options) (*Store, error) {
	u, err := CheckEndpoint(o.Endpoint)
	if err != nil {
		return nil, err
	}
	if o.Region == "" {
		o.Region = "us-east-1" // known, so that no bucket is asked for its own
	}
	if o.LinkLife == 0 {
		o.LinkLife = time.Hour
	}
	if o.LinkLife < MinLinkLife || o.LinkLife > MaxLinkLife {
		return nil, fmt.Errorf("s3: a link's life of %s is not within %s and %s", o.LinkLife, MinLinkLife, MaxLinkLife)
	}
	if o.Credentials == nil {
		o.Credentials = credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}})
	}
	client, err := minio.New(u.Host, &minio.Options{Creds: o.Credentials, Secure: u.Scheme == "https", Region: o.Region, MaxRetries: tries})
	if err != nil {
		return nil, fmt.Errorf("s3: endpoint %q: %w", o.Endpoint, err)
	}
	return &Store{client: client, life: o.LinkLife}, nil
}

// CheckEndpoint reads an Options.Endpoint.
func CheckEndpoint(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("s3: the endpoint is not http://HOST[:PORT] or https://HOST[:PORT]")
	}
	return u, nil
}

// Split takes s3://BUCKET/KEY apart. Everything after the bucket is the key as it
// stands: there are no escapes and no query.
func Split(ref string) (bucket, key string, err error) {
	scheme, rest, _ := strings.Cut(ref, "://")
	bucket, key, _ = strings.Cut(rest, "/")
	if !strings.EqualFold(scheme, Scheme) || key == "" || s3utils.CheckValidBucketName(bucket) != nil || s3utils.CheckValidObjectName(key) != nil {
		return "", "", fmt.Errorf("%w: it is not s3://BUCKET/KEY", job.ErrUnopenable)
	}
	return bucket, key, nil
}

// Open streams an object. One whose reading breaks off fails, it does not end.
func (s *Store) Open(ctx context.Context, ref string) (io.ReadCloser, error) {
	bucket, key, err := Split(ref)
	if err != nil {
		return nil, err
	}
	watch := silence.Start(ctx, longestSilence)
	body, _, _, err := minio.Core{Client: s.client}.GetObject(watch.Context(), bucket, key, minio.GetObjectOptions{})
	if err != nil {
		err = watch.Explain(plain(err, job.ErrAbsent))
		watch.End()
		return nil, err
	}
	return watch.Body(body), nil
}

// Link makes a link that reads an object, for as long as Options.LinkLife and the
// credentials last. Whether there is one the server is not asked.
func (s *Store) Link(ctx context.Context, ref string) (string, error) {
	bucket, key, err := Split(ref)
	if err != nil {
		return "", err
	}
	link, err := s.client.PresignedGetObject(ctx, bucket, key, s.life, nil)
	if err != nil {
		return "", plain(err, job.ErrAbsent)
	}
	return link.String(), nil
}

// WithPrefix gives a Store whose Put puts below s3://BUCKET/PREFIX.
func (s *Store) WithPrefix(prefix string) (*Store, error) {
	prefix = strings.TrimRight(prefix, "/") + "/"
	if _, _, err := Split(prefix + "x"); err != nil {
		return nil, fmt.Errorf("s3: %.80q is not s3://BUCKET or s3://BUCKET/PREFIX", strings.TrimRight(prefix, "/"))
	}
	with := *s
	with.prefix = prefix
	return &with, nil
}

// Put streams an output to its name below the prefix, in parts. Nothing is there
// before all of it is.
func (s *Store) Put(ctx context.Context, name string, body io.Reader) (string, error) {
	ref := s.prefix + name
	bucket, key, err := Split(ref)
	if err != nil {
		return "", job.Invalid("s3: %.80q is no place for an output", ref)
	}
	_, err = s.client.PutObject(ctx, bucket, key, body, -1, minio.PutObjectOptions{PartSize: partSize, ContentType: "application/octet-stream"})
	if err != nil {
		return "", fmt.Errorf("s3: object %s: %w", ref, plain(err, job.Invalid("s3: object %s is refused", ref)))
	}
	return ref, nil
}

// plain is an error without what the client adds to it: requests have signatures in
// them. It matches lasting if it says that there is no such thing, and then, for an
// output, also if the server refuses it.
func plain(err error, lasting error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	answer, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok {
		return err
	}
	said := fmt.Errorf("the server answers %s (%d)", answer.Code, answer.StatusCode)
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound:
		return fmt.Errorf("%w: %w", lasting, said)
	case code == http.StatusForbidden && errors.Is(lasting, job.ErrInvalidJob):
		return fmt.Errorf("%w: %w", lasting, said)
	}
	return said
}
