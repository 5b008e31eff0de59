// terraform makes the calls that the Terraform AWS provider makes for its S3 resources, with the SDK that the provider
// is built on, and checks what the provider checks in the answers. One command is one step of a resource's life.
//
// The provider itself takes too long to build. Order, arguments and checks follow its internal/service/s3: bucket.go,
// bucket_versioning.go, bucket_object_lock_configuration.go, bucket_lifecycle_configuration.go, object.go, tags.go,
// delete.go.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

const key = "folder/object"

// In the provider: how often a lifecycle configuration must be read as it was written. There 10.
const sameAnswers = 2

var (
	ctx    = context.Background()
	conn   *s3.Client
	bucket *string
)

// Wrong ends the program: the provider would fail.
func wrong(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(1)
}

// IsKnown: the environment says that this is answered otherwise than by AWS, and that the rest is to be recorded nevertheless.
func isKnown(what string) bool {
	return strings.Contains(os.Getenv("KNOWN"), what)
}

func must[T any](output T, err error) T {
	if err != nil {
		wrong("%v", err)
	}
	return output
}

// Tolerated: an error code that the provider takes for "there is none".
func tolerated[T any](output T, err error, codes ...string) {
	if err != nil && !isCode(err, codes...) {
		wrong("%v", err)
	}
}

func isCode(err error, codes ...string) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	for _, code := range codes {
		if api.ErrorCode() == code {
			return true
		}
	}
	return false
}

func isStatus(err error, status int) bool {
	var response *awshttp.ResponseError
	return errors.As(err, &response) && response.HTTPStatusCode() == status
}

// ---- aws_s3_bucket ---------------------------------------------------------------------------------------------------

func bucketCreate(lock bool) {
	input := &s3.CreateBucketInput{Bucket: bucket}
	if lock {
		input.ObjectLockEnabledForBucket = aws.Bool(true)
	}
	must(conn.CreateBucket(ctx, input))
	must(conn.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: bucket}))
}

func bucketRead() {
	must(conn.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: bucket}))
	policy, err := conn.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: bucket})
	tolerated(policy, err, "NoSuchBucketPolicy", "NotImplemented")
	acl := must(conn.GetBucketAcl(ctx, &s3.GetBucketAclInput{Bucket: bucket}))
	if acl.Owner == nil || len(acl.Grants) == 0 {
		wrong("no owner or grants")
	}
	cors, err := conn.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: bucket})
	tolerated(cors, err, "NoSuchCORSConfiguration")
	website, err := conn.GetBucketWebsite(ctx, &s3.GetBucketWebsiteInput{Bucket: bucket})
	tolerated(website, err, "MethodNotAllowed", "NotImplemented", "NoSuchWebsiteConfiguration", "XNotImplemented")
	must(conn.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: bucket}))
	must(conn.GetBucketAccelerateConfiguration(ctx, &s3.GetBucketAccelerateConfigurationInput{Bucket: bucket}))
	if must(conn.GetBucketRequestPayment(ctx, &s3.GetBucketRequestPaymentInput{Bucket: bucket})).Payer != types.PayerBucketOwner {
		wrong("another payer")
	}
	must(conn.GetBucketLogging(ctx, &s3.GetBucketLoggingInput{Bucket: bucket}))
	rules, err := conn.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: bucket})
	tolerated(rules, err, "NoSuchLifecycleConfiguration")
	replication, err := conn.GetBucketReplication(ctx, &s3.GetBucketReplicationInput{Bucket: bucket})
	tolerated(replication, err, "ReplicationConfigurationNotFoundError")
	encryption, err := conn.GetBucketEncryption(ctx, &s3.GetBucketEncryptionInput{Bucket: bucket})
	tolerated(encryption, err, "ServerSideEncryptionConfigurationNotFoundError")
	if err != nil && !strings.Contains(err.Error(), "encryption configuration was not found") {
		wrong("%v", err)
	}
	lock, err := conn.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: bucket})
	tolerated(lock, err, "ObjectLockConfigurationNotFoundError")
	if region := must(conn.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: bucket})).BucketRegion; aws.ToString(region) != "us-east-1" {
		wrong("region %q", aws.ToString(region))
	}
	bucketTags()
}

func bucketTags() []types.Tag {
	output, err := conn.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: bucket})
	tolerated(output, err, "NoSuchTagSet")
	if err != nil {
		return nil
	}
	return output.TagSet
}

func bucketTag(pairs ...string) {
	bucketTags() // those of others are kept
	if len(pairs) == 0 {
		must(conn.DeleteBucketTagging(ctx, &s3.DeleteBucketTaggingInput{Bucket: bucket}))
	} else {
		must(conn.PutBucketTagging(ctx, &s3.PutBucketTaggingInput{Bucket: bucket, Tagging: &types.Tagging{TagSet: tags(pairs)}}))
	}
	if got := bucketTags(); !reflect.DeepEqual(got, tags(pairs)) {
		wrong("other tags: %v", got)
	}
}

func tags(pairs []string) []types.Tag {
	var set []types.Tag
	for i := 0; i+1 < len(pairs); i += 2 {
		set = append(set, types.Tag{Key: aws.String(pairs[i]), Value: aws.String(pairs[i+1])})
	}
	return set
}

// With force_destroy: everything in it first.
func bucketDelete() {
	_, err := conn.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket})
	if isCode(err, "BucketNotEmpty") {
		pages := s3.NewListObjectVersionsPaginator(conn, &s3.ListObjectVersionsInput{Bucket: bucket})
		for pages.HasMorePages() {
			emptyPage(must(pages.NextPage(ctx)))
		}
		_, err = conn.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: bucket})
	}
	if err != nil {
		wrong("%v", err)
	}
	if _, err := conn.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: bucket}); !isStatus(err, http.StatusNotFound) {
		wrong("the bucket is still there: %v", err)
	}
}

func emptyPage(page *s3.ListObjectVersionsOutput) {
	var all []types.ObjectIdentifier
	for _, v := range page.Versions {
		all = append(all, types.ObjectIdentifier{Key: v.Key, VersionId: v.VersionId})
	}
	for _, m := range page.DeleteMarkers {
		all = append(all, types.ObjectIdentifier{Key: m.Key, VersionId: m.VersionId})
	}
	if len(all) == 0 {
		return
	}
	output := must(conn.DeleteObjects(ctx, &s3.DeleteObjectsInput{Bucket: bucket, BypassGovernanceRetention: aws.Bool(true),
		Delete: &types.Delete{Objects: all, Quiet: aws.Bool(true)}}))
	if len(output.Errors) > 0 {
		wrong("not deleted: %v", aws.ToString(output.Errors[0].Code))
	}
}

// ---- aws_s3_bucket_versioning ----------------------------------------------------------------------------------------

func versioning(status types.BucketVersioningStatus) {
	must(conn.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: status}}))
	if got := must(conn.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: bucket})).Status; got != status {
		wrong("versioning %q", got)
	}
}

// What the deletion of the resource does in a bucket with object lock.
func versioningOfLocked() {
	_, err := conn.PutBucketVersioning(ctx, &s3.PutBucketVersioningInput{Bucket: bucket,
		VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusSuspended}})
	if !isCode(err, "InvalidBucketState") || !strings.Contains(err.Error(),
		"An Object Lock configuration is present on this bucket, so the versioning state cannot be changed") {
		wrong("%v", err)
	}
}

// ---- aws_s3_bucket_object_lock_configuration -------------------------------------------------------------------------

func objectLock(retention *types.DefaultRetention) {
	configuration := &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled}
	if retention != nil {
		configuration.Rule = &types.ObjectLockRule{DefaultRetention: retention}
	}
	must(conn.PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{Bucket: bucket, ObjectLockConfiguration: configuration}))
	got := must(conn.GetObjectLockConfiguration(ctx, &s3.GetObjectLockConfigurationInput{Bucket: bucket})).ObjectLockConfiguration
	if !reflect.DeepEqual(got, configuration) {
		wrong("another configuration: %+v", got)
	}
}

// ---- aws_s3_bucket_lifecycle_configuration ---------------------------------------------------------------------------

func lifecycle(rules ...types.LifecycleRule) {
	size := types.TransitionDefaultMinimumObjectSizeAllStorageClasses128k
	must(conn.PutBucketLifecycleConfiguration(ctx, &s3.PutBucketLifecycleConfigurationInput{Bucket: bucket,
		LifecycleConfiguration: &types.BucketLifecycleConfiguration{Rules: rules}, TransitionDefaultMinimumObjectSize: size}))
	for i := 0; i < sameAnswers; i++ {
		got := must(conn.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: bucket}))
		if !reflect.DeepEqual(got.Rules, rules) {
			wrong("other rules: %+v", got.Rules)
		}
		if got.TransitionDefaultMinimumObjectSize != size && !isKnown("size") {
			wrong("transition_default_minimum_object_size is %q", got.TransitionDefaultMinimumObjectSize)
		}
	}
}

func lifecycleDelete() {
	must(conn.DeleteBucketLifecycle(ctx, &s3.DeleteBucketLifecycleInput{Bucket: bucket}))
	_, err := conn.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: bucket})
	if !isCode(err, "NoSuchLifecycleConfiguration") {
		wrong("there are rules still: %v", err)
	}
}

// Each form of a filter, and each action.
func rulesOfAllKinds() []types.LifecycleRule {
	date := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	rule := func(id string, filter *types.LifecycleRuleFilter) types.LifecycleRule {
		return types.LifecycleRule{ID: aws.String(id), Status: types.ExpirationStatusEnabled, Filter: filter}
	}
	all := rule("all", &types.LifecycleRuleFilter{})
	all.AbortIncompleteMultipartUpload = &types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(7)}
	empty := rule("empty prefix", &types.LifecycleRuleFilter{Prefix: aws.String("")})
	empty.NoncurrentVersionExpiration = &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(30), NewerNoncurrentVersions: aws.Int32(3)}
	prefix := rule("prefix", &types.LifecycleRuleFilter{Prefix: aws.String("logs/")})
	prefix.Expiration = &types.LifecycleExpiration{Days: aws.Int32(90)}
	tag := rule("tag", &types.LifecycleRuleFilter{Tag: &types.Tag{Key: aws.String("keep"), Value: aws.String("no")}})
	tag.Expiration = &types.LifecycleExpiration{Date: &date}
	larger := rule("larger", &types.LifecycleRuleFilter{ObjectSizeGreaterThan: aws.Int64(1 << 20)})
	larger.Expiration = &types.LifecycleExpiration{Days: aws.Int32(365)}
	and := rule("and", &types.LifecycleRuleFilter{And: &types.LifecycleRuleAndOperator{Prefix: aws.String("tmp/"),
		Tags: tags([]string{"a", "1", "b", "2"}), ObjectSizeGreaterThan: aws.Int64(10), ObjectSizeLessThan: aws.Int64(1 << 30)}})
	and.Expiration = &types.LifecycleExpiration{Days: aws.Int32(1)}
	markers := rule("markers", &types.LifecycleRuleFilter{Prefix: aws.String("gone/")})
	markers.Expiration = &types.LifecycleExpiration{ExpiredObjectDeleteMarker: aws.Bool(true)}
	return []types.LifecycleRule{all, empty, prefix, tag, larger, and, markers}
}

// With the deprecated argument prefix, which does not go together with filters.
func ruleOfOld() types.LifecycleRule {
	return types.LifecycleRule{ID: aws.String("legacy"), Status: types.ExpirationStatusDisabled, Prefix: aws.String("old/"),
		NoncurrentVersionExpiration: &types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(1)}}
}

// ---- aws_s3_object ---------------------------------------------------------------------------------------------------

func objectPut(content string, change func(*s3.PutObjectInput)) {
	input := &s3.PutObjectInput{Bucket: bucket, Key: aws.String(key), Body: bytes.NewReader([]byte(content)),
		ContentType: aws.String("text/plain"), Metadata: map[string]string{"owner": "terraform"}}
	if change != nil {
		change(input)
	}
	output := must(conn.PutObject(ctx, input))
	if got := objectRead(); aws.ToString(got.VersionId) != aws.ToString(output.VersionId) || aws.ToString(got.ETag) != aws.ToString(output.ETag) {
		wrong("another object is there: %v", aws.ToString(got.VersionId))
	}
}

func objectRead() *s3.HeadObjectOutput {
	output := must(conn.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String(key)}))
	if aws.ToString(output.ContentType) != "text/plain" || output.Metadata["owner"] != "terraform" {
		wrong("other metadata: %v", output.Metadata)
	}
	objectTags()
	return output
}

func objectTags() []types.Tag {
	return must(conn.GetObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: bucket, Key: aws.String(key)})).TagSet
}

func objectTag(pairs ...string) {
	objectTags() // those of others are kept
	if len(pairs) == 0 {
		must(conn.DeleteObjectTagging(ctx, &s3.DeleteObjectTaggingInput{Bucket: bucket, Key: aws.String(key)}))
	} else {
		must(conn.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{Bucket: bucket, Key: aws.String(key), Tagging: &types.Tagging{TagSet: tags(pairs)}}))
	}
	if got := objectTags(); len(got) != len(pairs)/2 {
		wrong("other tags: %v", got)
	}
	objectRead()
}

func objectHold(status types.ObjectLockLegalHoldStatus) {
	must(conn.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{Bucket: bucket, Key: aws.String(key), LegalHold: &types.ObjectLockLegalHold{Status: status}}))
	if got := objectRead().ObjectLockLegalHoldStatus; got != status && !(got == "" && isKnown("hold")) {
		wrong("hold %q", got)
	}
}

func objectRetain(until time.Time, bypass bool) {
	input := &s3.PutObjectRetentionInput{Bucket: bucket, Key: aws.String(key),
		Retention: &types.ObjectLockRetention{Mode: types.ObjectLockRetentionModeGovernance, RetainUntilDate: &until}}
	if bypass {
		input.BypassGovernanceRetention = aws.Bool(true)
	}
	must(conn.PutObjectRetention(ctx, input))
	if got := objectRead(); got.ObjectLockMode != types.ObjectLockModeGovernance || !aws.ToTime(got.ObjectLockRetainUntilDate).Equal(until) {
		wrong("retention %q until %v", got.ObjectLockMode, got.ObjectLockRetainUntilDate)
	}
}

// All versions of the key; with force_destroy a hold is taken off, and governance bypassed.
func objectDelete(force bool) {
	pages := s3.NewListObjectVersionsPaginator(conn, &s3.ListObjectVersionsInput{Bucket: bucket, Prefix: aws.String(key)})
	for pages.HasMorePages() {
		page := must(pages.NextPage(ctx))
		for _, v := range page.Versions {
			objectDeleteVersion(v.VersionId, force)
		}
		for _, m := range page.DeleteMarkers {
			objectDeleteVersion(m.VersionId, false)
		}
	}
	if _, err := conn.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String(key)}); !isStatus(err, http.StatusNotFound) {
		wrong("the object is still there: %v", err)
	}
}

func objectDeleteVersion(version *string, force bool) {
	input := &s3.DeleteObjectInput{Bucket: bucket, Key: aws.String(key), VersionId: version}
	if force {
		input.BypassGovernanceRetention = aws.Bool(true)
	}
	_, err := conn.DeleteObject(ctx, input)
	if force && isCode(err, "AccessDenied") {
		head := must(conn.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: aws.String(key), VersionId: version}))
		if head.ObjectLockLegalHoldStatus != types.ObjectLockLegalHoldStatusOn {
			wrong("refused without a hold")
		}
		must(conn.PutObjectLegalHold(ctx, &s3.PutObjectLegalHoldInput{Bucket: bucket, Key: aws.String(key), VersionId: version,
			LegalHold: &types.ObjectLockLegalHold{Status: types.ObjectLockLegalHoldStatusOff}}))
		_, err = conn.DeleteObject(ctx, input)
	}
	if err != nil {
		wrong("%v", err)
	}
}

// ---- steps -----------------------------------------------------------------------------------------------------------

var steps = map[string]func(){
	"bucket-create":        func() { bucketCreate(false) },
	"bucket-create-locked": func() { bucketCreate(true) },
	"bucket-read":          bucketRead,
	"bucket-tag":           func() { bucketTag("env", "test", "team", "storage") },
	"bucket-tag-change":    func() { bucketTag("env", "live") },
	"bucket-untag":         func() { bucketTag() },
	"bucket-delete":        bucketDelete,
	"versioning-enable":    func() { versioning(types.BucketVersioningStatusEnabled) },
	"versioning-suspend":   func() { versioning(types.BucketVersioningStatusSuspended) },
	"versioning-of-locked": versioningOfLocked,
	"lock-days": func() {
		objectLock(&types.DefaultRetention{Mode: types.ObjectLockRetentionModeGovernance, Days: aws.Int32(5)})
	},
	"lock-years": func() {
		objectLock(&types.DefaultRetention{Mode: types.ObjectLockRetentionModeCompliance, Years: aws.Int32(1)})
	},
	"lock-without-rule": func() { objectLock(nil) },
	"lifecycle-put":     func() { lifecycle(rulesOfAllKinds()...) },
	"lifecycle-change":  func() { lifecycle(rulesOfAllKinds()[2]) },
	"lifecycle-legacy":  func() { lifecycle(ruleOfOld()) },
	"lifecycle-delete":  lifecycleDelete,
	"object-create":     func() { objectPut("one", func(in *s3.PutObjectInput) { in.Tagging = aws.String("a=1&b=two+words") }) },
	"object-change":     func() { objectPut("two", nil) },
	"object-tag":        func() { objectTag("c", "3") },
	"object-untag":      func() { objectTag() },
	"object-create-held": func() {
		objectPut("held", func(in *s3.PutObjectInput) {
			in.ObjectLockLegalHoldStatus, in.ChecksumAlgorithm = types.ObjectLockLegalHoldStatusOn, types.ChecksumAlgorithmCrc32
		})
	},
	"object-release":       func() { objectHold(types.ObjectLockLegalHoldStatusOff) },
	"object-hold":          func() { objectHold(types.ObjectLockLegalHoldStatusOn) },
	"object-retain":        func() { objectRetain(time.Date(2099, 6, 1, 0, 0, 0, 0, time.UTC), false) },
	"object-retain-less":   func() { objectRetain(time.Date(2098, 6, 1, 0, 0, 0, 0, time.UTC), true) },
	"object-delete":        func() { objectDelete(false) },
	"object-delete-forced": func() { objectDelete(true) },
}

func main() {
	if len(os.Args) != 4 || steps[os.Args[3]] == nil {
		wrong("terraform ENDPOINT BUCKET STEP")
	}
	conn = s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(os.Args[1]), UsePathStyle: true, RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), "")})
	bucket = aws.String(os.Args[2])
	steps[os.Args[3]]()
}
