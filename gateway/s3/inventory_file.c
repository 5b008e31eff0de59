/*
 * inventory_file.c - the bytes of one data file of an inventory report: rows of CSV with gzip, or Parquet. Rule N5 of
 * docs/design/inventory.md. On the gateway's first loop.
 */
#include <stdlib.h>

#include "gateway/s3/inventory_pass.h"

bool gw_inventory_file_room(struct gw_inventory *run)
{
        run->buffer = malloc(INVENTORY_BUFFER_BYTES);
        run->parquet = run->inventory.parquet ? s3_parquet_new() : NULL;
        return run->buffer != NULL && (run->parquet != NULL || !run->inventory.parquet);
}

void gw_inventory_file_free(struct gw_inventory *run)
{
        free(run->buffer);
        run->buffer = NULL;
        s3_parquet_free(run->parquet);
        run->parquet = NULL;
}

void gw_inventory_file_begin(struct gw_inventory *run)
{
        struct s3_parquet_column columns[S3_INVENTORY_CELLS];

        run->rows = 0;
        if (run->parquet != NULL)
                s3_parquet_begin(run->parquet, columns, s3_inventory_columns(&run->inventory, columns), run->buffer,
                                 INVENTORY_BUFFER_BYTES);
        else
                era_gzip_begin(run->gzip, run->buffer, INVENTORY_BUFFER_BYTES);
}

bool gw_inventory_file_add(struct gw_inventory *run, const struct s3_inventory_row *row)
{
        struct s3_parquet_value cells[S3_INVENTORY_CELLS];
        char line[S3_INVENTORY_ROW_MAX];
        ssize_t len;

        run->rows++;
        if (run->parquet != NULL) {
                s3_inventory_cells(&run->inventory, row, cells);
                return s3_parquet_row(run->parquet, cells) == 0;
        }
        len = s3_inventory_csv(&run->inventory, row, line, sizeof(line));
        return len > 0 && era_gzip_write(run->gzip, line, (uint32_t)len) == 0;
}

bool gw_inventory_file_end(struct gw_inventory *run)
{
        return (run->parquet != NULL ? s3_parquet_end(run->parquet) : era_gzip_end(run->gzip)) == 0;
}

size_t gw_inventory_file_len(const struct gw_inventory *run)
{
        return run->parquet != NULL ? s3_parquet_len(run->parquet) : era_gzip_len(run->gzip);
}

const char *gw_inventory_file_suffix(const struct gw_inventory *run)
{
        return run->inventory.parquet ? "parquet" : "csv.gz";
}

const char *gw_inventory_file_type(const struct gw_inventory *run)
{
        return run->inventory.parquet ? "application/vnd.apache.parquet" : "application/gzip";
}
