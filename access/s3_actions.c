/*
 * The actions of S3, and what each applies to, as the Service Authorization Reference has them.
 * Called when a bucket policy is compiled; pure; rule A4.
 */
#include "compiled.h"

struct known_action {
        struct s3_str name; /* in lower case, behind "s3:" */
        unsigned on;
};

#define ACTION(name, on)                                                                                               \
        {                                                                                                              \
                {name, sizeof(name) - 1}, ACC_ON_##on                                                                  \
        }

static const struct known_action known_actions[] = {
        ACTION("s3:abortmultipartupload", OBJECT),
        ACTION("s3:bypassgovernanceretention", OBJECT),
        ACTION("s3:createaccesspoint", ACCOUNT),
        ACTION("s3:createbucket", BUCKET),
        ACTION("s3:createbucketmetadatatableconfiguration", BUCKET),
        ACTION("s3:createjob", ACCOUNT),
        ACTION("s3:deleteaccesspoint", ACCOUNT),
        ACTION("s3:deletebucket", BUCKET),
        ACTION("s3:deletebucketmetadatatableconfiguration", BUCKET),
        ACTION("s3:deletebucketpolicy", BUCKET),
        ACTION("s3:deletebucketwebsite", BUCKET),
        ACTION("s3:deletejobtagging", ACCOUNT),
        ACTION("s3:deleteobject", OBJECT),
        ACTION("s3:deleteobjecttagging", OBJECT),
        ACTION("s3:deleteobjectversion", OBJECT),
        ACTION("s3:deleteobjectversiontagging", OBJECT),
        ACTION("s3:describejob", ACCOUNT),
        ACTION("s3:getaccelerateconfiguration", BUCKET),
        ACTION("s3:getaccesspoint", ACCOUNT),
        ACTION("s3:getaccountpublicaccessblock", ACCOUNT),
        ACTION("s3:getanalyticsconfiguration", BUCKET),
        ACTION("s3:getbucketabac", BUCKET),
        ACTION("s3:getbucketacl", BUCKET),
        ACTION("s3:getbucketcors", BUCKET),
        ACTION("s3:getbucketlocation", BUCKET),
        ACTION("s3:getbucketlogging", BUCKET),
        ACTION("s3:getbucketmetadatatableconfiguration", BUCKET),
        ACTION("s3:getbucketnotification", BUCKET),
        ACTION("s3:getbucketobjectlockconfiguration", BUCKET),
        ACTION("s3:getbucketownershipcontrols", BUCKET),
        ACTION("s3:getbucketpolicy", BUCKET),
        ACTION("s3:getbucketpolicystatus", BUCKET),
        ACTION("s3:getbucketpublicaccessblock", BUCKET),
        ACTION("s3:getbucketrequestpayment", BUCKET),
        ACTION("s3:getbuckettagging", BUCKET),
        ACTION("s3:getbucketversioning", BUCKET),
        ACTION("s3:getbucketwebsite", BUCKET),
        ACTION("s3:getencryptionconfiguration", BUCKET),
        ACTION("s3:getintelligenttieringconfiguration", BUCKET),
        ACTION("s3:getinventoryconfiguration", BUCKET),
        ACTION("s3:getjobtagging", ACCOUNT),
        ACTION("s3:getlifecycleconfiguration", BUCKET),
        ACTION("s3:getmetricsconfiguration", BUCKET),
        ACTION("s3:getobject", OBJECT),
        ACTION("s3:getobjectacl", OBJECT),
        ACTION("s3:getobjectattributes", OBJECT),
        ACTION("s3:getobjectlegalhold", OBJECT),
        ACTION("s3:getobjectretention", OBJECT),
        ACTION("s3:getobjecttagging", OBJECT),
        ACTION("s3:getobjecttorrent", OBJECT),
        ACTION("s3:getobjectversion", OBJECT),
        ACTION("s3:getobjectversionacl", OBJECT),
        ACTION("s3:getobjectversionattributes", OBJECT),
        ACTION("s3:getobjectversionforreplication", OBJECT),
        ACTION("s3:getobjectversiontagging", OBJECT),
        ACTION("s3:getobjectversiontorrent", OBJECT),
        ACTION("s3:getreplicationconfiguration", BUCKET),
        ACTION("s3:initiatereplication", OBJECT),
        ACTION("s3:listaccesspoints", ACCOUNT),
        ACTION("s3:listallmybuckets", ACCOUNT),
        ACTION("s3:listbucket", BUCKET),
        ACTION("s3:listbucketmultipartuploads", BUCKET),
        ACTION("s3:listbucketversions", BUCKET),
        ACTION("s3:listjobs", ACCOUNT),
        ACTION("s3:listmultipartuploadparts", OBJECT),
        ACTION("s3:listtagsforresource", BUCKET),
        ACTION("s3:objectowneroverridetobucketowner", OBJECT),
        ACTION("s3:pausereplication", BUCKET),
        ACTION("s3:putaccelerateconfiguration", BUCKET),
        ACTION("s3:putaccountpublicaccessblock", ACCOUNT),
        ACTION("s3:putanalyticsconfiguration", BUCKET),
        ACTION("s3:putbucketabac", BUCKET),
        ACTION("s3:putbucketacl", BUCKET),
        ACTION("s3:putbucketcors", BUCKET),
        ACTION("s3:putbucketlogging", BUCKET),
        ACTION("s3:putbucketnotification", BUCKET),
        ACTION("s3:putbucketobjectlockconfiguration", BUCKET),
        ACTION("s3:putbucketownershipcontrols", BUCKET),
        ACTION("s3:putbucketpolicy", BUCKET),
        ACTION("s3:putbucketpublicaccessblock", BUCKET),
        ACTION("s3:putbucketrequestpayment", BUCKET),
        ACTION("s3:putbuckettagging", BUCKET),
        ACTION("s3:putbucketversioning", BUCKET),
        ACTION("s3:putbucketwebsite", BUCKET),
        ACTION("s3:putencryptionconfiguration", BUCKET),
        ACTION("s3:putintelligenttieringconfiguration", BUCKET),
        ACTION("s3:putinventoryconfiguration", BUCKET),
        ACTION("s3:putjobtagging", ACCOUNT),
        ACTION("s3:putlifecycleconfiguration", BUCKET),
        ACTION("s3:putmetricsconfiguration", BUCKET),
        ACTION("s3:putobject", OBJECT),
        ACTION("s3:putobjectacl", OBJECT),
        ACTION("s3:putobjectlegalhold", OBJECT),
        ACTION("s3:putobjectretention", OBJECT),
        ACTION("s3:putobjecttagging", OBJECT),
        ACTION("s3:putobjectversionacl", OBJECT),
        ACTION("s3:putobjectversiontagging", OBJECT),
        ACTION("s3:putreplicationconfiguration", BUCKET),
        ACTION("s3:replicatedelete", OBJECT),
        ACTION("s3:replicateobject", OBJECT),
        ACTION("s3:replicatetags", OBJECT),
        ACTION("s3:restoreobject", OBJECT),
        ACTION("s3:tagresource", BUCKET),
        ACTION("s3:untagresource", BUCKET),
        ACTION("s3:updatebucketmetadatainventorytableconfiguration", BUCKET),
        ACTION("s3:updatebucketmetadatajournaltableconfiguration", BUCKET),
        ACTION("s3:updatejobpriority", ACCOUNT),
        ACTION("s3:updatejobstatus", ACCOUNT),
        ACTION("s3:updateobjectencryption", OBJECT),
};

unsigned acc_s3_actions(const struct acc_pattern *pattern)
{
        unsigned on = 0;

        for (size_t i = 0; i < LENGTH(known_actions) && on != (ACC_ON_ACCOUNT | ACC_ON_BUCKET | ACC_ON_OBJECT); i++)
                if ((on & known_actions[i].on) == 0 &&
                    acc_pattern_match(NULL, pattern, known_actions[i].name, false) == ACC_MATCH_YES)
                        on |= known_actions[i].on;
        return on;
}
